// Package signingkey owns the keys that sign a realm's tokens: making, encoding
// and publishing them, signing with them, and the plan of their lives. It reads the public
// keys of others too, by which what they have signed is verified.
package signingkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
)

// Algorithm is a JWS algorithm (RFC 7518 §3.1, RFC 8037 §3.1).
type Algorithm string

// The algorithms that a realm can sign with.
const (
	ES256 Algorithm = "ES256"
	ES384 Algorithm = "ES384"
	EdDSA Algorithm = "EdDSA"
	RS256 Algorithm = "RS256"
	PS256 Algorithm = "PS256"
)

// Algorithms lists all of them, the default first.
var Algorithms = []Algorithm{ES256, ES384, EdDSA, RS256, PS256}

// rsaBits is the least that RFC 7518 §3.3 allows; more costs the token server dearly.
const rsaBits = 2048

// ErrAlgorithm says that an algorithm is unknown or that a key does not fit it.
var ErrAlgorithm = errors.New("signing algorithm not supported")

// newPrivateKey makes a key for the algorithm.
func newPrivateKey(algorithm Algorithm, random io.Reader) (crypto.Signer, error) {
	switch algorithm {
	case ES256:
		return ecdsa.GenerateKey(elliptic.P256(), random)
	case ES384:
		return ecdsa.GenerateKey(elliptic.P384(), random)
	case EdDSA:
		_, key, err := ed25519.GenerateKey(random)
		return key, err
	case RS256, PS256:
		return rsa.GenerateKey(random, rsaBits)
	}
	return nil, fmt.Errorf("%w: %q", ErrAlgorithm, algorithm)
}

// fits reports whether a public key is of the kind and size that the algorithm needs,
// which ties each key to one algorithm: a token can't choose another.
func (a Algorithm) fits(public crypto.PublicKey) bool {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return a == ES256 && key.Curve == elliptic.P256() || a == ES384 && key.Curve == elliptic.P384()
	case ed25519.PublicKey:
		return a == EdDSA
	case *rsa.PublicKey:
		return (a == RS256 || a == PS256) && key.N.BitLen() >= rsaBits
	}
	return false
}

// whole reports whether the private half of a key makes its public half. go-jose sees to it
// for the other kinds; what an EC key of two keys' halves signs would verify nowhere.
func whole(private crypto.Signer) bool {
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok {
		return true
	}
	made, err := key.ECDH()
	if err != nil {
		return false
	}
	stated, err := key.PublicKey.ECDH()
	return err == nil && made.PublicKey().Equal(stated)
}
