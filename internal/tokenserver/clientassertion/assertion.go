// Package clientassertion checks the JWTs that clients use to authenticate (RFC 7523), or to act for
// another subject (RFC 8693). A client signs them itself, or they are tokens of the cluster or of another
// issuer that the realm trusts.
package clientassertion

import (
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

// These are the reasons for rejecting an assertion, in addition to those of package jws. They are
// logged but not revealed to the client.
var (
	ErrType        = errors.New("assertion is a JWT of the wrong type")
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
	*jws.JWT
	// Claims are the registered claims (RFC 7519 §4.1).
	Claims jwt.Claims

	all map[string]json.RawMessage // set by HasClaims
}

// AsSVID returns the assertion as a JWT-SVID whose issuer is the trust domain of its subject. An "iss" is
// ignored, because SPIRE can set it to any URL. If the subject is no SPIFFE ID, the issuer is empty.
func (a *Assertion) AsSVID() *Assertion {
	svid := *a
	svid.Claims.Issuer = ""
	return &svid
}

// types lists the allowed values of "typ" in lower case: unset, the common "JWT", the value defined
// in draft-ietf-oauth-rfc7523bis, and "JOSE", which JWT-SVIDs can also have (SPIFFE JWT-SVID §2.3).
// Access tokens are therefore rejected (RFC 8725 §3.11).
var types = map[string]bool{"": true, "jwt": true, "client-authentication+jwt": true, "jose": true}

// Parse parses a JWT in JWS Compact Serialization (RFC 7515 §7.1). It is strict: an assertion has
// only one valid encoding.
//
// Errors: jws.ErrMalformed, jws.ErrCritical, ErrType.
func Parse(compact string) (*Assertion, error) { return parse(compact, types) }

func parse(compact string, allowed map[string]bool) (*Assertion, error) {
	parsed, err := jws.Parse(compact)
	if err != nil {
		return nil, err
	}
	if !allowed[parsed.Type] {
		return nil, ErrType
	}
	a := &Assertion{JWT: parsed}
	// go-jose's JSON decoder is case-sensitive and rejects duplicate members.
	if json.Unmarshal(a.Payload, &a.Claims) != nil {
		return nil, jws.ErrMalformed
	}
	return a, nil
}

// spiffeScheme precedes the trust domain in SPIFFE IDs.
const spiffeScheme = "spiffe://"

// Issuer returns the issuer. JWT-SVIDs need not have an "iss"; their issuer is the trust domain of
// their subject, such as spiffe://example.org (SPIFFE-ID §2.1).
func (a *Assertion) Issuer() string {
	path, ok := strings.CutPrefix(a.Claims.Subject, spiffeScheme)
	if a.Claims.Issuer != "" || !ok {
		return a.Claims.Issuer
	}
	domain, _, _ := strings.Cut(path, "/")
	return spiffeScheme + domain
}
