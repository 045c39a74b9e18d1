package signingkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
)

// Signer creates JWS signatures with one key. It is safe for concurrent use.
//
// It uses crypto/* directly. Signing is most of the cost of issuing a token, and a general-purpose
// JOSE library would increase it by more than half.
type Signer struct {
	id        string
	algorithm Algorithm
	private   crypto.Signer // nil if the key is sealed
}

// Signer returns a Signer for tokens. If the key is sealed or Retiring, every signature fails with
// ErrSealed.
func (k *Key) Signer() *Signer { return k.token.signer(k.Algorithm) }

// ListSigner returns a Signer for status lists. Every signature fails with ErrSealed if the key is sealed or
// Retiring, or if it signs no lists; see ListPublic.
func (k *Key) ListSigner() *Signer { return k.list.signer(k.Algorithm) }

func (p pair) signer(algorithm Algorithm) *Signer {
	return &Signer{id: p.id, algorithm: algorithm, private: p.private}
}

// KeyID returns the "kid" of the key.
func (s *Signer) KeyID() string { return s.id }

// Algorithm returns the "alg" of the key.
func (s *Signer) Algorithm() Algorithm { return s.algorithm }

// Sign appends the JWS signature (RFC 7515 §5.1, not encoded) of input to dst.
func (s *Signer) Sign(dst, input []byte) ([]byte, error) {
	signature, err := s.sign(input)
	if err != nil {
		return nil, fmt.Errorf("signing with key %q: %w", s.id, err)
	}
	return append(dst, signature...), nil
}

func (s *Signer) sign(input []byte) ([]byte, error) {
	switch key := s.private.(type) {
	case nil:
		return nil, ErrSealed
	case *ecdsa.PrivateKey:
		return signECDSA(key, s.algorithm.digest(input))
	case ed25519.PrivateKey:
		return ed25519.Sign(key, input), nil
	case *rsa.PrivateKey:
		var options crypto.SignerOpts = crypto.SHA256
		if s.algorithm == PS256 {
			options = pssOptions
		}
		return key.Sign(rand.Reader, s.algorithm.digest(input), options)
	}
	return nil, ErrAlgorithm
}

// signECDSA returns R and S, each padded to the size of the curve's order (RFC 7518 §3.4).
func signECDSA(key *ecdsa.PrivateKey, digest []byte) ([]byte, error) {
	r, s, err := ecdsa.Sign(rand.Reader, key, digest)
	if err != nil {
		return nil, err
	}
	size := orderSize(&key.PublicKey)
	signature := make([]byte, 2*size)
	r.FillBytes(signature[:size])
	s.FillBytes(signature[size:])
	return signature, nil
}
