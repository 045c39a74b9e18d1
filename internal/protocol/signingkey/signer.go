package signingkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Signer creates JWS signatures with one key. It is safe for concurrent use.
//
// It uses crypto/* directly. Signing is most of the cost of issuing a token, and a general-purpose
// JOSE library would increase it by more than half.
type Signer struct {
	id        string
	algorithm Algorithm
	sign      func(dst, input []byte) ([]byte, error)
}

// Signer returns a Signer for tokens. If the key is sealed or Retiring, every signature fails with
// ErrSealed.
func (k *Key) Signer() *Signer { return k.token.signer(k.Algorithm) }

// ListSigner returns a Signer for status lists. Every signature fails with ErrSealed if the key is sealed or
// Retiring, or if it signs no lists; see ListPublic.
func (k *Key) ListSigner() *Signer { return k.list.signer(k.Algorithm) }

func (p pair) signer(algorithm Algorithm) *Signer {
	if p.private == nil {
		return &Signer{id: p.id, algorithm: algorithm, sign: func([]byte, []byte) ([]byte, error) { return nil, ErrSealed }}
	}
	return &Signer{id: p.id, algorithm: algorithm, sign: signFunc(algorithm, p.private)}
}

// KeyID returns the "kid" of the key.
func (s *Signer) KeyID() string { return s.id }

// Algorithm returns the "alg" of the key.
func (s *Signer) Algorithm() Algorithm { return s.algorithm }

// Sign appends the JWS signature (RFC 7515 §5.1, not encoded) of input to dst.
func (s *Signer) Sign(dst, input []byte) ([]byte, error) {
	signed, err := s.sign(dst, input)
	if err != nil {
		return nil, fmt.Errorf("signing with key %q: %w", s.id, err)
	}
	return signed, nil
}

func signFunc(algorithm Algorithm, private crypto.Signer) func(dst, input []byte) ([]byte, error) {
	switch key := private.(type) {
	case *ecdsa.PrivateKey:
		if algorithm == ES384 {
			return func(dst, input []byte) ([]byte, error) {
				digest := sha512.Sum384(input)
				return signECDSA(dst, key, digest[:])
			}
		}
		return func(dst, input []byte) ([]byte, error) {
			digest := sha256.Sum256(input)
			return signECDSA(dst, key, digest[:])
		}
	case ed25519.PrivateKey:
		return func(dst, input []byte) ([]byte, error) {
			return append(dst, ed25519.Sign(key, input)...), nil
		}
	case *rsa.PrivateKey:
		var options crypto.SignerOpts = crypto.SHA256
		if algorithm == PS256 {
			options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
		}
		return func(dst, input []byte) ([]byte, error) {
			digest := sha256.Sum256(input)
			signature, err := key.Sign(rand.Reader, digest[:], options)
			return append(dst, signature...), err
		}
	}
	return func([]byte, []byte) ([]byte, error) { return nil, ErrAlgorithm }
}

// signECDSA appends R and S, each padded to the size of the curve's order (RFC 7518 §3.4).
// crypto/ecdsa returns them in ASN.1.
func signECDSA(dst []byte, key *ecdsa.PrivateKey, digest []byte) ([]byte, error) {
	der, err := ecdsa.SignASN1(rand.Reader, key, digest)
	if err != nil {
		return nil, err
	}
	size := (key.Curve.Params().BitSize + 7) / 8
	n := len(dst)
	dst = append(dst, make([]byte, 2*size)...)
	r, s := dst[n:n+size], dst[n+size:]
	input := cryptobyte.String(der)
	var sequence cryptobyte.String
	if !input.ReadASN1(&sequence, asn1.SEQUENCE) || !readPadded(&sequence, r) || !readPadded(&sequence, s) {
		return nil, fmt.Errorf("%w: malformed ASN.1 signature", ErrAlgorithm)
	}
	return dst, nil
}

func readPadded(sequence *cryptobyte.String, out []byte) bool {
	var integer []byte
	if !sequence.ReadASN1Integer(&integer) || len(integer) > len(out) {
		return false
	}
	copy(out[len(out)-len(integer):], integer)
	return true
}
