// Package servingcert keeps the certificates with which token servers show who they are,
// where the instance manages them itself: a CA, and a serving certificate that it signs.
package servingcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

const (
	// authorityLifetime is long: consumers hold the CA's certificate.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// servingLifetime is short, and renewal comes when a third of it is left.
	servingLifetime = 90 * 24 * time.Hour
	renewBefore     = servingLifetime / 3
	// backdate makes certificates valid for clients whose clocks are behind.
	backdate = time.Hour

	serialBits = 128
)

// ErrInvalidPair says that certificate and key can't be read or don't belong together.
var ErrInvalidPair = errors.New("certificate and key not usable")

// Pair is a certificate with its private key, both PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// NewAuthority makes a CA that is valid for ten years.
//
// The error is that of random.
func NewAuthority(now time.Time, random io.Reader) (Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Realmkeeper CA"},
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
	}
	return sign(template, nil, now, random)
}

// Issue makes a serving certificate, signed by the CA p, for the hosts, the first of which
// names it. It is valid for 90 days.
//
// Errors: ErrInvalidPair for a CA that can't be used; those of random.
func (p Pair) Issue(hosts []string, now time.Time, random io.Reader) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: shortName(hosts[0])},
		DNSNames:    hosts,
		NotAfter:    now.Add(servingLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return sign(template, &p, now, random)
}

// RenewAt returns when a serving certificate of the CA p is to be renewed: now, if it
// isn't usable, isn't that CA's or doesn't cover the hosts.
func (p Pair) RenewAt(serving Pair, hosts []string, now time.Time) time.Time {
	parsed, err := serving.parse()
	if err != nil {
		return now
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Certificate)
	for _, host := range hosts {
		if _, err := parsed.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
			return now
		}
	}
	return parsed.Leaf.NotAfter.Add(-renewBefore)
}

// Check reports ErrInvalidPair for a pair that can't be used.
func (p Pair) Check() error {
	_, err := p.parse()
	return err
}

func (p Pair) parse() (tls.Certificate, error) {
	parsed, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%w: %w", ErrInvalidPair, err)
	}
	return parsed, nil
}

// sign makes a key and a certificate for it, signed by authority, or by itself when that is nil.
func sign(template *x509.Certificate, authority *Pair, now time.Time, random io.Reader) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return Pair{}, fmt.Errorf("making a key for a certificate: %w", err)
	}
	serial := make([]byte, serialBits/8)
	if _, err := io.ReadFull(random, serial); err != nil {
		return Pair{}, fmt.Errorf("making a serial number: %w", err)
	}
	serial[0] &= 0x7f // positive (RFC 5280 §4.1.2.2)
	template.SerialNumber = new(big.Int).SetBytes(serial)
	template.NotBefore = now.Add(-backdate)

	parent, signer := template, any(key)
	if authority != nil {
		parsed, err := authority.parse()
		if err != nil {
			return Pair{}, fmt.Errorf("reading the CA: %w", err)
		}
		parent, signer = parsed.Leaf, parsed.PrivateKey
	}
	certificate, err := x509.CreateCertificate(random, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, fmt.Errorf("signing a certificate: %w", err)
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding a key: %w", err)
	}
	return Pair{
		Certificate: encode("CERTIFICATE", certificate),
		Key:         encode("PRIVATE KEY", encodedKey),
	}, nil
}

func encode(kind string, der []byte) []byte {
	var b bytes.Buffer
	_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}) // a buffer takes everything
	return b.Bytes()
}

// shortName cuts a host to the 64 characters that a common name may have; verifiers look
// at the DNS names.
func shortName(host string) string {
	return host[:min(len(host), 64)]
}
