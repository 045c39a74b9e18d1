// Package clientassertion parses and verifies the JWTs that clients use to authenticate (RFC 7523
// §2.2).
package clientassertion

import (
	"errors"

	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

// These are the reasons for rejecting an assertion. They are logged but not revealed to the client.
var (
	ErrMalformed   = jws.ErrMalformed
	ErrCritical    = jws.ErrCritical
	ErrType        = errors.New("assertion is a JWT of the wrong type")
	ErrKey         = jws.ErrKey
	ErrSignature   = jws.ErrSignature
	ErrIssuer      = errors.New("assertion has the wrong issuer")
	ErrSubject     = errors.New("assertion has the wrong subject")
	ErrAudience    = errors.New("assertion has the wrong audience or more than one audience")
	ErrNoExpiry    = errors.New("assertion has no exp")
	ErrExpired     = errors.New("assertion has expired")
	ErrTooLong     = errors.New("assertion expires too far in the future")
	ErrNotYetValid = errors.New("assertion is not yet valid")
	ErrNoID        = errors.New("assertion has no jti")
)

// Assertion is a parsed JWT. Don't trust its content before Verify succeeds. The signer must not
// choose the key that verifies the signature, so Key is never used.
type Assertion struct {
	jws.JWT
	// Claims are the registered claims (RFC 7519 §4.1).
	Claims jwt.Claims
}

// types lists the allowed values of "typ" in lower case: unset, the common value, and the value
// defined in draft-ietf-oauth-rfc7523bis. Access tokens are therefore rejected (RFC 8725 §3.11).
var types = map[string]bool{"": true, "jwt": true, "client-authentication+jwt": true}

// Parse parses a JWT in JWS Compact Serialization (RFC 7515 §7.1). It is strict: an assertion has
// only one valid encoding.
//
// Errors: ErrMalformed, ErrCritical, ErrType.
func Parse(compact string) (*Assertion, error) {
	parsed, err := jws.Parse(compact)
	if err != nil {
		return nil, err
	}
	if !types[parsed.Type] {
		return nil, ErrType
	}
	a := &Assertion{JWT: *parsed}
	if json.Unmarshal(a.Payload, &a.Claims) != nil {
		return nil, ErrMalformed
	}
	return a, nil
}
