package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// rawSignature returns what makes one signature with crypto/* alone. Except for
// EdDSA, whose signature includes it, hashing the input isn't part of it.
func rawSignature(algorithm signingkey.Algorithm, input []byte) (func() error, error) {
	digest256, digest384 := sha256.Sum256(input), sha512.Sum384(input)
	switch algorithm {
	case signingkey.ES256:
		return rawECDSA(elliptic.P256(), digest256[:])
	case signingkey.ES384:
		return rawECDSA(elliptic.P384(), digest384[:])
	case signingkey.EdDSA:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return func() error { ed25519.Sign(key, input); return nil }, err
	case signingkey.RS256, signingkey.PS256:
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, err
		}
		if algorithm == signingkey.RS256 {
			return func() error { _, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest256[:]); return err }, nil
		}
		pss := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
		return func() error { _, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, digest256[:], pss); return err }, nil
	}
	return nil, fmt.Errorf("%w: %q", signingkey.ErrAlgorithm, algorithm)
}

func rawECDSA(curve elliptic.Curve, digest []byte) (func() error, error) {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	return func() error { _, err := ecdsa.SignASN1(rand.Reader, key, digest); return err }, err
}

// rawVerification returns what verifies one signature over input with crypto/* alone. Except
// for EdDSA, hashing the input isn't part of it.
func rawVerification(algorithm signingkey.Algorithm, input []byte) (func() error, error) {
	digest := sha256.Sum256(input)
	switch algorithm {
	case signingkey.ES256:
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
		return func() error { return orRefused(ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature)) }, err
	case signingkey.EdDSA:
		public, key, err := ed25519.GenerateKey(rand.Reader)
		signature := ed25519.Sign(key, input)
		return func() error { return orRefused(ed25519.Verify(public, input, signature)) }, err
	case signingkey.RS256:
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, err
		}
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
		return func() error { return rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, digest[:], signature) }, err
	}
	return nil, fmt.Errorf("%w: %q", signingkey.ErrAlgorithm, algorithm)
}

func orRefused(valid bool) error {
	if !valid {
		return errAnswer
	}
	return nil
}
