package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

var errNotCertificates = errors.New("not only certificates in PEM format")

// Parse reads the certificates in PEM format. If some of the data can't be read, Parse returns the
// certificates that it could read, and an error that wraps ErrInvalidPair.
func Parse(data []byte) ([]*x509.Certificate, error) {
	var (
		certificates []*x509.Certificate
		failed       error
	)
	for len(bytes.TrimSpace(data)) > 0 {
		block, rest := pem.Decode(data)
		if block == nil {
			failed = errNotCertificates
			break
		}
		data = rest
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" {
			failed = errors.Join(errNotCertificates, err)
			continue
		}
		certificates = append(certificates, parsed)
	}
	if failed != nil {
		return certificates, fmt.Errorf("%w: %w", ErrInvalidPair, failed)
	}
	return certificates, nil
}

// Encode returns certificates in PEM format.
func Encode(certificates []*x509.Certificate) []byte {
	var b []byte
	for _, c := range certificates {
		b = append(b, encode("CERTIFICATE", c.Raw)...)
	}
	return b
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
