package signingkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"math/big"
)

// ErrSignature means that the key did not create the signature for the given input.
var ErrSignature = errors.New("signature not valid")

// Verify checks that signature (RFC 7515 §5.2, not encoded) was created with the key for input.
//
// Only the key determines the algorithm (RFC 8725 §3.1). The algorithm in a token's header is not
// used.
//
// The error is ErrSignature.
func (k PublicKey) Verify(input, signature []byte) error {
	valid := false
	switch key := k.key.(type) {
	case *ecdsa.PublicKey:
		valid = verifyECDSA(key, k.algorithm.digest(input), signature)
	case ed25519.PublicKey:
		valid = ed25519.Verify(key, input, signature)
	case *rsa.PublicKey:
		if k.algorithm == PS256 {
			valid = rsa.VerifyPSS(key, crypto.SHA256, k.algorithm.digest(input), signature, pssOptions) == nil
		} else {
			valid = rsa.VerifyPKCS1v15(key, crypto.SHA256, k.algorithm.digest(input), signature) == nil
		}
	}
	if !valid {
		return ErrSignature
	}
	return nil
}

// verifyECDSA verifies a signature that consists of R followed by S, each padded to the size of the
// curve's order (RFC 7518 §3.4). It rejects signatures of any other length.
func verifyECDSA(key *ecdsa.PublicKey, digest, signature []byte) bool {
	size := orderSize(key)
	if len(signature) != 2*size {
		return false
	}
	return ecdsa.Verify(key, digest, new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
}

// orderSize returns the size of the order of the key's curve in bytes.
func orderSize(key *ecdsa.PublicKey) int { return (key.Curve.Params().BitSize + 7) / 8 }

var pssOptions = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}

// digest returns the hash that the algorithm signs. EdDSA signs the input itself.
func (a Algorithm) digest(input []byte) []byte {
	if a == ES384 {
		sum := sha512.Sum384(input)
		return sum[:]
	}
	sum := sha256.Sum256(input)
	return sum[:]
}
