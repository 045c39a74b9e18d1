package signingkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"errors"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// ErrSignature means that the key did not create the signature for the given input.
var ErrSignature = errors.New("signature not valid")

// Verifier verifies JWS signatures created with one key. It is safe for concurrent use.
//
// Only the key determines the algorithm (RFC 8725 §3.1). The algorithm in a token's header is not
// used.
type Verifier struct {
	valid func(input, signature []byte) bool
}

// Verifier returns a Verifier for signatures created with the key.
func (k PublicKey) Verifier() *Verifier {
	return &Verifier{valid: verifyFunc(k.algorithm, k.key)}
}

// Verify checks that signature (RFC 7515 §5.2, not encoded) was created with the key for input.
//
// The error is ErrSignature.
func (v *Verifier) Verify(input, signature []byte) error {
	if !v.valid(input, signature) {
		return ErrSignature
	}
	return nil
}

func verifyFunc(algorithm Algorithm, public crypto.PublicKey) func(input, signature []byte) bool {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if algorithm == ES384 {
			return func(input, signature []byte) bool {
				digest := sha512.Sum384(input)
				return verifyECDSA(key, digest[:], signature)
			}
		}
		return func(input, signature []byte) bool {
			digest := sha256.Sum256(input)
			return verifyECDSA(key, digest[:], signature)
		}
	case ed25519.PublicKey:
		return func(input, signature []byte) bool { return ed25519.Verify(key, input, signature) }
	case *rsa.PublicKey:
		if algorithm == PS256 {
			return func(input, signature []byte) bool {
				digest := sha256.Sum256(input)
				return rsa.VerifyPSS(key, crypto.SHA256, digest[:], signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
			}
		}
		return func(input, signature []byte) bool {
			digest := sha256.Sum256(input)
			return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil
		}
	}
	return func([]byte, []byte) bool { return false }
}

// verifyECDSA verifies a signature that consists of R followed by S, each padded to the size of the
// curve's order (RFC 7518 §3.4). It rejects signatures of any other length. crypto/ecdsa needs R
// and S in ASN.1.
func verifyECDSA(key *ecdsa.PublicKey, digest, signature []byte) bool {
	size := (key.Curve.Params().BitSize + 7) / 8
	if len(signature) != 2*size {
		return false
	}
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		addUnsigned(b, signature[:size])
		addUnsigned(b, signature[size:])
	})
	der, err := b.Bytes()
	return err == nil && ecdsa.VerifyASN1(key, digest, der)
}

// addUnsigned adds a big-endian number as an ASN.1 INTEGER. It removes leading zeros, and adds one
// zero if the number would otherwise be negative.
func addUnsigned(b *cryptobyte.Builder, number []byte) {
	for len(number) > 1 && number[0] == 0 {
		number = number[1:]
	}
	b.AddASN1(asn1.INTEGER, func(b *cryptobyte.Builder) {
		if number[0]&0x80 != 0 {
			b.AddUint8(0)
		}
		b.AddBytes(number)
	})
}
