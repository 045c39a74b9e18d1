// Package jws parses the signed JWTs that clients send and verifies their signatures. It knows
// nothing of their claims.
package jws

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// These are the reasons for rejecting a JWT. They are logged but not revealed to the client.
var (
	ErrMalformed = errors.New("not a signed JWT in compact form")
	ErrCritical  = errors.New("JWT has unsupported critical header parameters")
	ErrKey       = errors.New("JWT's kid and alg do not match an allowed key")
	ErrSignature = errors.New("JWT has an invalid signature")
)

// newerEdDSA is the name of EdDSA with an Ed25519 key in RFC 9864 §2.2.
const newerEdDSA = "Ed25519"

// Algorithms lists the values of "alg" that keys can verify, sorted.
var Algorithms = func() []string {
	names := []string{newerEdDSA}
	for _, algorithm := range signingkey.Algorithms {
		names = append(names, string(algorithm))
	}
	slices.Sort(names)
	return names
}()

// JWT is a parsed JWT. Don't trust its content before Verify succeeds.
type JWT struct {
	// Algorithm is the "alg" header parameter. It doesn't select the algorithm, because each key
	// has only one.
	Algorithm signingkey.Algorithm
	// KeyID is the "kid" header parameter. It may be empty.
	KeyID string
	// Type is the "typ" header parameter in lower case and without "application/" (RFC 7515 §4.1.9).
	// It may be empty.
	Type string
	// Key is the "jwk" header parameter, which the signer chooses. It may be nil.
	Key []byte
	// Payload contains the claims as JSON.
	Payload []byte

	input     []byte
	signature []byte
}

// header contains the supported header parameters. Key URLs and certificates (jku, x5c, x5u) are
// ignored.
type header struct {
	Algorithm string          `json:"alg"`
	KeyID     string          `json:"kid"`
	Type      string          `json:"typ"`
	Key       json.RawMessage `json:"jwk"`
	Critical  json.RawMessage `json:"crit"`
}

// Parse parses a JWT in JWS Compact Serialization (RFC 7515 §7.1). It is strict: a JWT has only one
// valid encoding.
//
// Errors: ErrMalformed, ErrCritical.
func Parse(compact string) (*JWT, error) {
	parts := strings.SplitN(compact, ".", 4)
	if len(parts) != 3 {
		return nil, ErrMalformed
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		// The base64 decoder ignores line breaks.
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return nil, ErrMalformed
		}
	}
	var h header
	// go-jose's JSON decoder is case-sensitive and rejects duplicate members.
	if json.Unmarshal(decoded[0], &h) != nil || h.Algorithm == "" {
		return nil, ErrMalformed
	}
	if h.Critical != nil {
		return nil, ErrCritical
	}
	return &JWT{
		Algorithm: algorithm(h.Algorithm),
		KeyID:     h.KeyID,
		Type:      strings.TrimPrefix(strings.ToLower(h.Type), "application/"),
		Key:       h.Key,
		Payload:   decoded[1],
		input:     []byte(compact[:len(parts[0])+len(".")+len(parts[1])]),
		signature: decoded[2],
	}, nil
}

// algorithm maps newerEdDSA to the name that keys have.
func algorithm(name string) signingkey.Algorithm {
	if name == newerEdDSA {
		return signingkey.EdDSA
	}
	return signingkey.Algorithm(name)
}

// Verify checks the signature with the given key. The JWT's algorithm must match the key's.
//
// Errors: ErrKey, ErrSignature.
func (j *JWT) Verify(key signingkey.PublicKey) error {
	if key.Algorithm() != j.Algorithm {
		return ErrKey
	}
	if key.Verify(j.input, j.signature) != nil {
		return ErrSignature
	}
	return nil
}
