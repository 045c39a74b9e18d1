package signingkey

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// maxRSABits bounds the cost of verifying a third party's signature.
const maxRSABits = 4096

// ErrPrivateKey is the ErrKey of a private or symmetric key in a place for public keys. The key must
// be considered compromised.
var ErrPrivateKey = fmt.Errorf("%w: it is a private key", ErrKey)

// ParsePublicKey parses a public key from a JWK (RFC 7517) that states everything about the key, such
// as one from a record or a key set. The algorithm is "alg". If "alg" is missing, it is the only
// algorithm that the key can have; RSA keys can have two and therefore need "alg". The ID is "kid",
// which may be empty.
//
// The error is ErrKey if data is not a JWK, is a private key (ErrPrivateKey), is not a valid key, is
// an RSA key of fewer than 2048 or more than 4096 bits, or is for a different algorithm or use. The
// error never contains values from the JWK.
func ParsePublicKey(data []byte) (PublicKey, error) {
	jwk, err := parseJWK(data, "sig")
	if err != nil {
		return PublicKey{}, err
	}
	return newPublicKey(jwk.KeyID, Algorithm(jwk.Algorithm), jwk.Key)
}

// ImportJWK parses a third party's public key from a JWK, with the ID under which the third party
// registered it. The JWK's own "kid" and "alg" are optional, but must not contradict id and
// algorithm. If algorithm is empty, it follows from the JWK as with ParsePublicKey.
//
// The error is ErrKey.
func ImportJWK(data []byte, id string, algorithm Algorithm) (PublicKey, error) {
	jwk, err := parseJWK(data, "sig")
	if err != nil {
		return PublicKey{}, err
	}
	if jwk.KeyID != "" && jwk.KeyID != id {
		return PublicKey{}, fmt.Errorf("%w: its kid differs from keyID", ErrKey)
	}
	if jwk.Algorithm != "" && algorithm != "" && Algorithm(jwk.Algorithm) != algorithm {
		return PublicKey{}, fmt.Errorf("%w: its alg differs from algorithm", ErrKey)
	}
	return newPublicKey(id, cmp.Or(algorithm, Algorithm(jwk.Algorithm)), jwk.Key)
}

// ImportPEM parses a third party's public key from a PEM block of type PUBLIC KEY (RFC 7468,
// section 13). If algorithm is empty, it is the only algorithm that the key can have; RSA keys can
// have two and therefore need it.
//
// The error is ErrKey, also if data is anything but a single block of this type.
func ImportPEM(data []byte, id string, algorithm Algorithm) (PublicKey, error) {
	if bytes.Contains(data, []byte("PRIVATE KEY")) {
		return PublicKey{}, ErrPrivateKey
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return PublicKey{}, fmt.Errorf("%w: it is not a single PEM block of type PUBLIC KEY", ErrKey)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: its PEM block does not contain a public key of a supported type", ErrKey)
	}
	return newPublicKey(id, algorithm, key)
}

// newPublicKey checks a key and its algorithm.
func newPublicKey(id string, algorithm Algorithm, key crypto.PublicKey) (PublicKey, error) {
	rsaKey, isRSA := key.(*rsa.PublicKey)
	if isRSA && (rsaKey.N.BitLen() < rsaBits || rsaKey.N.BitLen() > maxRSABits || rsaKey.N.Bit(0) == 0 || rsaKey.E&1 == 0 || rsaKey.E < 3) {
		return PublicKey{}, fmt.Errorf("%w: it is not a valid RSA key of %d to %d bits", ErrKey, rsaBits, maxRSABits)
	}
	if algorithm == "" && isRSA {
		return PublicKey{}, fmt.Errorf("%w: an RSA key needs an algorithm, which is %s or %s", ErrKey, RS256, PS256)
	}
	if algorithm = cmp.Or(algorithm, onlyAlgorithm(key)); !algorithm.matches(key) {
		return PublicKey{}, fmt.Errorf("%w: %w for this key", ErrKey, ErrAlgorithm)
	}
	return PublicKey{id: id, algorithm: algorithm, key: key}, nil
}

// parseJWK parses a JWK that must be a valid public key. Its "use" is optional, but must be one of
// uses.
func parseJWK(data []byte, uses ...string) (jose.JSONWebKey, error) {
	// The decoder's errors are not wrapped, because they may quote a private key.
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return jose.JSONWebKey{}, fmt.Errorf("%w: it is not a JWK, which is a JSON object", ErrKey)
	}
	if hasPrivateMember(members) {
		return jose.JSONWebKey{}, ErrPrivateKey
	}
	var jwk jose.JSONWebKey
	if json.Unmarshal(data, &jwk) != nil {
		return jose.JSONWebKey{}, fmt.Errorf("%w: it is not a JWK with valid members", ErrKey)
	}
	if !jwk.IsPublic() || !jwk.Valid() {
		return jose.JSONWebKey{}, fmt.Errorf("%w: it is not a valid public key", ErrKey)
	}
	if jwk.Use != "" && !slices.Contains(uses, jwk.Use) {
		return jose.JSONWebKey{}, fmt.Errorf("%w: its use is not sig", ErrKey)
	}
	if jwk.Algorithm == "Ed25519" { // RFC 9864 §2.2 replaces the name EdDSA
		jwk.Algorithm = string(EdDSA)
	}
	return jwk, nil
}

// hasPrivateMember reports whether a JWK has a member that only private and symmetric keys have
// (RFC 7518 §6.2.2, §6.3.2 and §6.4.1). go-jose treats a key as public if it has only some of them.
func hasPrivateMember(members map[string]json.RawMessage) bool {
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
