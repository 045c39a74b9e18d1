// Package servingcert creates the managed CA and the token servers' serving certificate, for
// instances with managed TLS.
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
	// authorityLifetime is long because workloads hold copies of the CA certificate.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// servingLifetime is short. The certificate is renewed when a third of its lifetime is left.
	servingLifetime = 90 * 24 * time.Hour
	renewBefore     = servingLifetime / 3
	// backdate makes new certificates valid for clients whose clocks are behind.
	backdate = time.Hour

	serialBits = 128
)

// ErrInvalidPair is returned if a certificate or key can't be parsed, or if they don't match.
var ErrInvalidPair = errors.New("invalid certificate or key")

// Pair is a certificate and its private key, both in PEM format.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// NewAuthority generates a CA that is valid for ten years. It fails only if random does.
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

// Issue generates a serving certificate for the given hosts, signed by the CA p. The first host
// becomes the common name. The certificate is valid for 90 days. The error wraps ErrInvalidPair if
// p is not a usable CA; otherwise it comes from random.
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

// RenewAt returns the time at which a serving certificate must be renewed. It returns now if the
// certificate is invalid, wasn't signed by the CA p, or doesn't cover all hosts.
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

// Check returns an error that wraps ErrInvalidPair if the pair is not usable.
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

// sign generates a key and a certificate for it. The certificate is signed by authority, or
// self-signed if authority is nil.
func sign(template *x509.Certificate, authority *Pair, now time.Time, random io.Reader) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return Pair{}, fmt.Errorf("generating a private key: %w", err)
	}
	serial := make([]byte, serialBits/8)
	if _, err := io.ReadFull(random, serial); err != nil {
		return Pair{}, fmt.Errorf("generating a serial number: %w", err)
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
		return Pair{}, fmt.Errorf("encoding a private key: %w", err)
	}
	return Pair{
		Certificate: encode("CERTIFICATE", certificate),
		Key:         encode("PRIVATE KEY", encodedKey),
	}, nil
}

func encode(kind string, der []byte) []byte {
	var b bytes.Buffer
	_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}) // writing to a buffer never fails
	return b.Bytes()
}

// shortName truncates a host to 64 characters, the maximum length of a common name. Verifiers use
// the DNS names instead.
func shortName(host string) string {
	return host[:min(len(host), 64)]
}
