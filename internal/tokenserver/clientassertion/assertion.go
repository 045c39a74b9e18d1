// Package clientassertion parses and verifies the JWTs that clients use to authenticate (RFC 7523
// §2.2).
package clientassertion

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// These are the reasons for rejecting an assertion. They are logged but not revealed to the client.
var (
	ErrMalformed   = errors.New("assertion is not a signed JWT in compact form")
	ErrCritical    = errors.New("assertion has unsupported critical header parameters")
	ErrType        = errors.New("assertion is a JWT of the wrong type")
	ErrKey         = errors.New("assertion's kid and alg do not match an allowed key")
	ErrSignature   = errors.New("assertion has an invalid signature")
	ErrIssuer      = errors.New("assertion has the wrong issuer")
	ErrSubject     = errors.New("assertion has the wrong subject")
	ErrAudience    = errors.New("assertion has the wrong audience or more than one audience")
	ErrNoExpiry    = errors.New("assertion has no exp")
	ErrExpired     = errors.New("assertion has expired")
	ErrTooLong     = errors.New("assertion expires too far in the future")
	ErrNotYetValid = errors.New("assertion is not yet valid")
	ErrNoID        = errors.New("assertion has no jti")
)

// Assertion is a parsed JWT. Don't trust its content before Verify succeeds.
type Assertion struct {
	// Algorithm is the "alg" header parameter. It doesn't select the algorithm, because each key
	// has only one.
	Algorithm signingkey.Algorithm
	// KeyID is the "kid" header parameter. It may be empty.
	KeyID string
	// Claims are the registered claims (RFC 7519 §4.1).
	Claims jwt.Claims

	payload   []byte
	input     []byte
	signature []byte
}

// header contains the supported header parameters. Keys and key URLs (jwk, jku, x5c, x5u) are
// ignored, because the signer must not choose the key that verifies the signature.
type header struct {
	Algorithm signingkey.Algorithm `json:"alg"`
	KeyID     string               `json:"kid"`
	Type      string               `json:"typ"`
	Critical  json.RawMessage      `json:"crit"`
}

// types lists the allowed values of "typ" in lower case: unset, the common value, and the value
// defined in draft-ietf-oauth-rfc7523bis. Access tokens are therefore rejected (RFC 8725 §3.11).
var types = map[string]bool{"": true, "jwt": true, "client-authentication+jwt": true}

// Parse parses a JWT in JWS Compact Serialization (RFC 7515 §7.1). It is strict: an assertion has
// only one valid encoding.
//
// Errors: ErrMalformed, ErrCritical, ErrType.
func Parse(compact string) (*Assertion, error) {
	a, err := split(compact)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(a.payload, &a.Claims) != nil {
		return nil, ErrMalformed
	}
	return a, nil
}

func split(compact string) (*Assertion, error) {
	parts := strings.Split(compact, ".")
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
	if !types[strings.TrimPrefix(strings.ToLower(h.Type), "application/")] {
		return nil, ErrType
	}
	return &Assertion{
		Algorithm: h.Algorithm, KeyID: h.KeyID,
		input:     []byte(compact[:len(parts[0])+len(".")+len(parts[1])]),
		payload:   decoded[1],
		signature: decoded[2],
	}, nil
}

// Verify checks the signature with the given key. The assertion's algorithm must match the key's.
//
// Errors: ErrKey, ErrSignature.
func (a *Assertion) Verify(key signingkey.PublicKey) error {
	if key.Algorithm() != a.Algorithm {
		return ErrKey
	}
	if key.Verifier().Verify(a.input, a.signature) != nil {
		return ErrSignature
	}
	return nil
}
