// Package signingkey owns the keys that sign a realm's tokens: it generates, encodes, publishes and
// rotates them, and signs with them. Records contain them in its encoding. It also parses third parties'
// public keys and verifies their signatures.
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

// Algorithms lists all algorithms, starting with the default.
var Algorithms = []Algorithm{ES256, ES384, EdDSA, RS256, PS256}

// rsaBits is the minimum that RFC 7518 §3.3 allows. Signing with larger keys is much slower.
const rsaBits = 2048

// ErrAlgorithm means that an algorithm is unknown or that a key does not match it.
var ErrAlgorithm = errors.New("signing algorithm not supported")

// newPrivateKey generates a key for the algorithm.
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

// SlowToGenerate reports whether generating a key can take seconds. Other keys take less than a millisecond.
func (a Algorithm) SlowToGenerate() bool { return a == RS256 || a == PS256 }

// matches reports whether a public key has the type and size that the algorithm requires. It ties
// each key to one algorithm, so that a token can't choose a different one.
func (a Algorithm) matches(public crypto.PublicKey) bool {
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

// consistent reports whether the private part of a key matches its public part. It checks EC
// keys only, because go-jose checks the other types. Signatures made with an inconsistent key can't be
// verified.
func consistent(private crypto.Signer) bool {
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok {
		return true
	}
	derived, err := key.ECDH()
	if err != nil {
		return false
	}
	stated, err := key.PublicKey.ECDH()
	return err == nil && derived.PublicKey().Equal(stated)
}
