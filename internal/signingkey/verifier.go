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

// ErrSignature says that a signature isn't one of the key over the input.
var ErrSignature = errors.New("signature not valid")

// Verifier verifies JWS signatures of one key. It is safe for concurrent use.
//
// The key alone fixes the algorithm (RFC 8725 §3.1): what a token says of it doesn't come here.
type Verifier struct {
	valid func(input, signature []byte) bool
}

// Verifier returns what verifies the key's signatures.
func (k PublicKey) Verifier() *Verifier {
	return &Verifier{valid: verifyFunc(k.algorithm, k.key)}
}

// Verify reports whether signature (RFC 7515 §5.2, not encoded) is the key's over input.
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

// verifyECDSA takes R and S side by side, each padded to the size of the curve's order
// (RFC 7518 §3.4), and no other length; crypto/ecdsa wants them in ASN.1.
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

// addUnsigned adds an ASN.1 INTEGER of a big-endian number: without zeros before it but
// the one that tells that it isn't negative.
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
