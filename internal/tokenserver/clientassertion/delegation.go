package clientassertion

import (
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

// These are additional reasons for rejecting a subject token or an ID-JAG.
var (
	ErrClient   = errors.New("ID-JAG is for another client")
	ErrResource = errors.New("ID-JAG does not name exactly one resource")
	ErrNoIssue  = errors.New("ID-JAG has no iat")
	ErrTenant   = errors.New("ID-JAG names a tenant, but the realm does not require a tenant of its issuer")
)

// subjectTypes lists the allowed values of "typ" for the subject tokens of issuers. Many issuers don't use
// the type of RFC 9068 for their access tokens. "oauth-id-jag+jwt" and the types of client assertions and
// DPoP proofs are not among them.
var subjectTypes = map[string]bool{"": true, "jwt": true, "at+jwt": true, "jose": true}

// idJAGTypes is the only value of "typ" for an ID-JAG
// (draft-ietf-oauth-identity-assertion-authz-grant, section 3).
var idJAGTypes = map[string]bool{"oauth-id-jag+jwt": true}

// ParseSubject parses a subject token of an issuer (RFC 8693 §2.1). Its errors are those of Parse.
func ParseSubject(compact string) (*Assertion, error) { return parse(compact, subjectTypes) }

// ParseIDJAG parses an ID-JAG. Its errors are those of Parse; ErrType means that it is a JWT of another kind.
func ParseIDJAG(compact string) (*Assertion, error) { return parse(compact, idJAGTypes) }

// Delegation are the claims of a token about who acts, or may act, for its subject.
type Delegation struct {
	Act    *Actor  `json:"act"`
	MayAct *MayAct `json:"may_act"`
	// Confirmation binds the token to a key (RFC 7800).
	Confirmation *Confirmation `json:"cnf"`
	// Events are what a security event token reports (RFC 8417 §2.2), such as a logout. It states nothing
	// that its subject may be acted for.
	Events json.RawMessage `json:"events"`
}

// Actor is an actor as an issuer states it (RFC 8693 §4.1).
type Actor struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	Act     *Actor `json:"act"`
}

// MayAct names who may act for the subject (RFC 8693 §4.4).
type MayAct struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	ClientID string `json:"client_id"`
}

// Confirmation is a "cnf" claim.
type Confirmation struct {
	JKT string `json:"jkt"` // RFC 9449 §6.1
}

// Delegation returns the claims about actors. Call it after the signature was verified.
//
// Errors: jws.ErrMalformed; ErrType for a security event token.
func (a *Assertion) Delegation() (Delegation, error) {
	var d Delegation
	if json.Unmarshal(a.Payload, &d) != nil {
		return Delegation{}, jws.ErrMalformed
	}
	if d.Events != nil {
		return Delegation{}, ErrType
	}
	return d, nil
}

// IDJAG are the claims of an identity assertion authorization grant
// (draft-ietf-oauth-identity-assertion-authz-grant, section 3.1).
type IDJAG struct {
	ClientID string `json:"client_id"`
	// Resource is the audience of new tokens: a string, or an array of one string.
	Resource json.RawMessage `json:"resource"`
	// Scope limits the scopes of new tokens; nil if it doesn't.
	Scope *string `json:"scope"`
	// Tenant is the tenant of an issuer that has several.
	Tenant       *string       `json:"tenant"`
	Confirmation *Confirmation `json:"cnf"`
}

// CheckIDJAG checks the claims of an ID-JAG, except for its issuer, and returns them and the resource. It
// must be for the given client, and have only the realm's issuer as audience and the required claims. It
// can be presented again until it expires (section 4.4.3).
//
// Errors: jws.ErrMalformed, ErrSubject, ErrAudience, ErrNoID, ErrNoIssue, ErrNoExpiry, ErrExpired, ErrTooLong,
// ErrNotYetValid, ErrRequiredClaim, ErrTenant, ErrClient, and ErrResource.
func (a *Assertion) CheckIDJAG(clientID, issuer string, required map[string]string, now time.Time) (claims IDJAG, resource string, err error) {
	if json.Unmarshal(a.Payload, &claims) != nil {
		return IDJAG{}, "", jws.ErrMalformed
	}
	switch {
	case a.Claims.ID == "":
		return IDJAG{}, "", ErrNoID
	case a.Claims.IssuedAt == nil:
		return IDJAG{}, "", ErrNoIssue
	case claims.ClientID != clientID:
		return IDJAG{}, "", ErrClient
	}
	if err := a.CheckForeign(issuer, required, now); err != nil {
		return IDJAG{}, "", err
	}
	// Subjects of two tenants can be equal.
	if _, pinned := required["tenant"]; claims.Tenant != nil && !pinned {
		return IDJAG{}, "", ErrTenant
	}
	if resource = single(claims.Resource); resource == "" {
		return IDJAG{}, "", ErrResource
	}
	return claims, resource, nil
}

// single returns a string, or the only one of an array.
func single(encoded json.RawMessage) string {
	var one string
	if json.Unmarshal(encoded, &one) == nil {
		return one
	}
	var several []string
	if json.Unmarshal(encoded, &several) != nil || len(several) != 1 {
		return ""
	}
	return several[0]
}
