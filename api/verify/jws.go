package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha512" // SHA-384
	"encoding/base64"
	"errors"
	"math/big"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

var (
	errCompact  = errors.New("not a JWS in compact form")
	errHeader   = errors.New("invalid header")
	errCritical = errors.New("unsupported critical header parameters")
)

// jws is a parsed JWS. Don't trust its content before a key verifies it.
type jws struct {
	algorithm jose.SignatureAlgorithm
	keyID     string
	kind      string // typ in lower case and without application/ (RFC 7515 §4.1.9)
	key       json.RawMessage
	payload   []byte

	input     []byte
	signature []byte
}

// parseJWS parses a JWS in Compact Serialization (RFC 7515 §7.1). It is strict, so that each JWS has
// only one valid encoding. Key URLs and certificates in the header are ignored.
func parseJWS(compact string) (*jws, error) {
	parts := strings.SplitN(compact, ".", 4)
	if len(parts) != 3 {
		return nil, errCompact
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		// The base64 decoder ignores line breaks.
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return nil, errCompact
		}
	}
	var header struct {
		Algorithm string          `json:"alg"`
		KeyID     string          `json:"kid"`
		Type      string          `json:"typ"`
		Key       json.RawMessage `json:"jwk"`
		Critical  json.RawMessage `json:"crit"`
	}
	// The JSON decoder of go-jose is case-sensitive and rejects duplicate members.
	if err := json.Unmarshal(decoded[0], &header); err != nil {
		return nil, errHeader
	}
	if header.Critical != nil {
		return nil, errCritical
	}
	return &jws{
		algorithm: algorithm(header.Algorithm),
		keyID:     header.KeyID,
		kind:      strings.TrimPrefix(strings.ToLower(header.Type), "application/"),
		key:       header.Key,
		payload:   decoded[1],
		input:     []byte(compact[:len(parts[0])+len(".")+len(parts[1])]),
		signature: decoded[2],
	}, nil
}

// algorithm maps the newer name of EdDSA with Ed25519 (RFC 9864 §2.2) to the one of go-jose.
func algorithm(name string) jose.SignatureAlgorithm {
	if name == "Ed25519" {
		return jose.EdDSA
	}
	return jose.SignatureAlgorithm(name)
}

// publicKey is a key with its ID and its only algorithm.
type publicKey struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       crypto.PublicKey
}

// newPublicKey returns the key of a JWK if it is a public one for signatures with the algorithm.
func newPublicKey(jwk jose.JSONWebKey, a jose.SignatureAlgorithm) (*publicKey, bool) {
	usable := false
	if jwk.Valid() && (jwk.Use == "" || jwk.Use == "sig") && (jwk.Algorithm == "" || algorithm(jwk.Algorithm) == a) {
		switch key := jwk.Key.(type) {
		case *ecdsa.PublicKey:
			usable = a == jose.ES256 && key.Curve == elliptic.P256() || a == jose.ES384 && key.Curve == elliptic.P384()
		case ed25519.PublicKey:
			usable = a == jose.EdDSA
		case *rsa.PublicKey:
			usable = (a == jose.RS256 || a == jose.PS256) && key.N.BitLen() >= 2048 && key.N.BitLen() <= 4096
		}
	}
	return &publicKey{id: jwk.KeyID, algorithm: a, key: jwk.Key}, usable
}

// equal reports whether two keys with the same ID verify the same signatures.
func (k *publicKey) equal(other *publicKey) bool {
	key, ok := k.key.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.algorithm == other.algorithm && key.Equal(other.key)
}

// verifies reports whether the key signed the JWS with the algorithm of the key (RFC 7518 §3).
func (k *publicKey) verifies(j *jws) bool {
	if j.algorithm != k.algorithm {
		return false
	}
	switch key := k.key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, j.input, j.signature)
	case *ecdsa.PublicKey:
		hash := crypto.SHA256
		if k.algorithm == jose.ES384 {
			hash = crypto.SHA384
		}
		if len(j.signature) != 2*hash.Size() { // the sizes of curve and hash are the same
			return false
		}
		r, s := new(big.Int).SetBytes(j.signature[:hash.Size()]), new(big.Int).SetBytes(j.signature[hash.Size():])
		return ecdsa.Verify(key, digest(hash, j.input), r, s)
	case *rsa.PublicKey:
		if k.algorithm == jose.PS256 {
			options := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
			return rsa.VerifyPSS(key, crypto.SHA256, digest(crypto.SHA256, j.input), j.signature, options) == nil
		}
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest(crypto.SHA256, j.input), j.signature) == nil
	}
	return false
}

func digest(hash crypto.Hash, input []byte) []byte {
	h := hash.New()
	h.Write(input)
	return h.Sum(nil)
}
