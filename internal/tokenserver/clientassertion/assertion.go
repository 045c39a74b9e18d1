// Package clientassertion reads and checks the JWTs with which clients authenticate
// (RFC 7523 §2.2), and remembers those that may be used once.
package clientassertion

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// Why an assertion is refused. The client learns none of it; logs do.
var (
	ErrMalformed   = errors.New("assertion is not a signed JWT in compact form")
	ErrCritical    = errors.New("assertion has critical header parameters, of which none is understood")
	ErrType        = errors.New("assertion is a JWT of another type")
	ErrKey         = errors.New("assertion names no key that may sign it")
	ErrSignature   = errors.New("signature of the assertion is not valid")
	ErrIssuer      = errors.New("assertion is not issued by whom it is about")
	ErrSubject     = errors.New("assertion is not about this client")
	ErrAudience    = errors.New("assertion is for another audience, or for several")
	ErrNoExpiry    = errors.New("assertion has no exp")
	ErrExpired     = errors.New("assertion has expired")
	ErrTooLong     = errors.New("assertion is valid for too long")
	ErrNotYetValid = errors.New("assertion is from the future")
	ErrNoID        = errors.New("assertion has no jti")
)

// Assertion is a JWT as it was read. Nothing that it says is to be trusted before Verify.
type Assertion struct {
	// Algorithm is what the header says. It chooses nothing: the key has one of its own.
	Algorithm signingkey.Algorithm
	// KeyID is the "kid" of the header; empty for none.
	KeyID string
	// Claims are the registered claims (RFC 7519 §4.1).
	Claims jwt.Claims

	payload   []byte
	input     []byte
	signature []byte
}

// header are the header parameters that count. A key that comes along, or the address of
// one (jwk, jku, x5c, x5u), is passed over: who signs can't say by whom to be believed.
type header struct {
	Algorithm signingkey.Algorithm `json:"alg"`
	KeyID     string               `json:"kid"`
	Type      string               `json:"typ"`
	Critical  json.RawMessage      `json:"crit"`
}

// types are the values of "typ" that an assertion may have, in lower case: none, the usual
// one, and that of draft-ietf-oauth-rfc7523bis. So an access token is none (RFC 8725 §3.11).
var types = map[string]bool{"": true, "jwt": true, "client-authentication+jwt": true}

// Parse reads a JWS in compact serialization (RFC 7515 §7.1) whose payload is a JWT's. It is strict:
// no other text stands for the same assertion.
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
		// The decoder passes over line breaks.
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return nil, ErrMalformed
		}
	}
	var h header
	// go-jose's JSON tells members apart by case, and refuses one that stands there twice.
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

// Verify checks the signature with a key, and that the assertion claims no other algorithm
// than the key's.
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
