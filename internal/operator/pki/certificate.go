// Package pki generates, signs, and reads X.509 certificates in PEM format, among them the serving
// certificate of token servers with managed TLS. The tokenservice controller decides when to issue one.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

const (
	// Backdate makes new certificates valid for clients whose clocks are behind.
	Backdate = time.Hour

	serialBits = 128
)

// ErrInvalidPair is returned if a certificate or key can't be parsed, if they don't match, or if they
// can't be used for their purpose.
var ErrInvalidPair = errors.New("invalid certificate or key")

// Pair is a certificate and its private key, both in PEM format. Other certificates can follow the
// first one.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// Parse returns the first certificate. The error wraps ErrInvalidPair if the pair isn't usable.
func (p Pair) Parse() (*x509.Certificate, error) {
	parsed, err := p.parse()
	return parsed.Leaf, err
}

func (p Pair) parse() (tls.Certificate, error) {
	parsed, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%w: %w", ErrInvalidPair, err)
	}
	return parsed, nil
}

// sign generates a key and a certificate for it. The certificate is signed by issuer, or self-signed
// if issuer is nil.
func sign(template *x509.Certificate, issuer *CA, now time.Time, random io.Reader) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return Pair{}, fmt.Errorf("generating a private key: %w", err)
	}
	parent, signer := template, crypto.Signer(key)
	if issuer != nil {
		parent, signer = issuer.Leaf, issuer.signer
	}
	certificate, err := create(template, parent, key.Public(), signer, now, random)
	if err != nil {
		return Pair{}, err
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding a private key: %w", err)
	}
	return Pair{Certificate: encode("CERTIFICATE", certificate), Key: encode("PRIVATE KEY", encodedKey)}, nil
}

// create signs a certificate with a random serial number. It is valid from now minus Backdate.
func create(template, parent *x509.Certificate, key crypto.PublicKey, signer crypto.Signer, now time.Time, random io.Reader) ([]byte, error) {
	if template.SerialNumber == nil {
		var err error
		if template.SerialNumber, err = newSerial(random); err != nil {
			return nil, err
		}
	}
	template.NotBefore = now.Add(-Backdate)
	certificate, err := x509.CreateCertificate(random, template, parent, key, signer)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return certificate, nil
}

func newSerial(random io.Reader) (*big.Int, error) {
	serial := make([]byte, serialBits/8)
	if _, err := io.ReadFull(random, serial); err != nil {
		return nil, fmt.Errorf("generating a serial number: %w", err)
	}
	serial[0] &= 0x7f // positive (RFC 5280 §4.1.2.2)
	return new(big.Int).SetBytes(serial), nil
}
