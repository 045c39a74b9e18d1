package signingkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// maxRSABits bounds the cost of verifying a third party's signature.
const maxRSABits = 4096

// ParsePublicKey parses a third party's public key from a JWK (RFC 7517), such as the key of a
// client's assertions. The algorithm is "alg". If "alg" is missing, it is the only algorithm that
// the key can have; RSA keys can have two and therefore need "alg". The ID is "kid", which may be
// empty.
//
// The error is ErrKey if data is not a JWK, is a private key, is not a valid key, is an RSA key of
// fewer than 2048 or more than 4096 bits, or is for a different algorithm or use. The error never
// contains values from the JWK.
func ParsePublicKey(data []byte) (PublicKey, error) {
	var jwk jose.JSONWebKey
	if err := json.Unmarshal(data, &jwk); err != nil {
		// Don't wrap the decoder's error, because it may quote a private key.
		return PublicKey{}, fmt.Errorf("%w: it is not a JWK with valid members", ErrKey)
	}
	if !jwk.IsPublic() || !jwk.Valid() || hasPrivateMember(data) {
		return PublicKey{}, fmt.Errorf("%w: it is not a valid public key", ErrKey)
	}
	if jwk.Use != "" && jwk.Use != "sig" {
		return PublicKey{}, fmt.Errorf("%w: it is not for signatures", ErrKey)
	}
	if key, ok := jwk.Key.(*rsa.PublicKey); ok && (key.N.BitLen() < rsaBits || key.N.BitLen() > maxRSABits || key.N.Bit(0) == 0 || key.E&1 == 0 || key.E < 3) {
		return PublicKey{}, fmt.Errorf("%w: it is not an RSA key of %d to %d bits", ErrKey, rsaBits, maxRSABits)
	}
	algorithm := Algorithm(jwk.Algorithm)
	if algorithm == "" {
		algorithm = onlyAlgorithm(jwk.Key)
	}
	if !algorithm.matches(jwk.Key) {
		return PublicKey{}, fmt.Errorf("%w: %w for this key", ErrKey, ErrAlgorithm)
	}
	return PublicKey{id: jwk.KeyID, algorithm: algorithm, key: jwk.Key}, nil
}

// hasPrivateMember reports whether a JWK has a member that only private and symmetric keys have
// (RFC 7518 §6.2.2, §6.3.2 and §6.4.1). go-jose treats a key as public if it has only some of them.
func hasPrivateMember(data []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return true
	}
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		if _, ok := members[private]; ok {
			return true
		}
	}
	return false
}

// onlyAlgorithm returns the only algorithm that a key can have, or "" if it can have several.
func onlyAlgorithm(public crypto.PublicKey) Algorithm {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P384() {
			return ES384
		}
		return ES256
	case ed25519.PublicKey:
		return EdDSA
	}
	return ""
}

// MarshalJSON writes the key as a JWK.
func (k PublicKey) MarshalJSON() ([]byte, error) {
	return json.Marshal(jose.JSONWebKey{Key: k.key, KeyID: k.id, Algorithm: string(k.algorithm), Use: "sig"})
}

// UnmarshalJSON parses a JWK like ParsePublicKey.
func (k *PublicKey) UnmarshalJSON(data []byte) (err error) {
	*k, err = ParsePublicKey(data)
	return err
}
