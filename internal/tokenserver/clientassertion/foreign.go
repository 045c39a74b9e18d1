package clientassertion

import (
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

// These are additional reasons for rejecting a token of another issuer.
var (
	ErrNoKeyID       = errors.New("token has no kid, and its issuer has several keys for its algorithm")
	ErrRequiredClaim = errors.New("token lacks a claim that the realm requires of its issuer, or has another value")
	ErrNotListed     = errors.New("token matches no identity of the client")
)

const (
	// MaxForeignLifetime is the maximum time until a token of another issuer expires, on the issuer's
	// clock.
	MaxForeignLifetime = 24 * time.Hour
	// MaxSubject is the maximum length of a subject in bytes. The API has the same limit.
	MaxSubject = 512
)

// CheckForeign checks the claims of a token that another issuer signed, except for its issuer. The
// token must have only the given audience and must have the required claims. It need not have a
// "jti", because workloads present the same token until it expires.
//
// Errors: ErrSubject, ErrAudience, ErrNoExpiry, ErrExpired, ErrTooLong, ErrNotYetValid and
// ErrRequiredClaim.
func (a *Assertion) CheckForeign(audience string, required map[string]string, now time.Time) error {
	subject, issuer := a.Claims.Subject, a.Issuer()
	// A trust domain issues only the IDs inside it (SPIFFE JWT-SVID §3.1).
	if subject == "" || len(subject) > MaxSubject ||
		strings.HasPrefix(issuer, spiffeScheme) && !strings.HasPrefix(subject, issuer+"/") {
		return ErrSubject
	}
	if err := a.checkAudience(audience); err != nil {
		return err
	}
	if err := a.checkTimes(now, MaxForeignLifetime); err != nil {
		return err
	}
	if !a.HasClaims(required) {
		return ErrRequiredClaim
	}
	return nil
}

// HasClaims reports whether the token has all wanted claims. Only strings match. The first call parses
// the payload again, so call it after the signature was verified.
func (a *Assertion) HasClaims(wanted map[string]string) bool {
	if len(wanted) == 0 {
		return true
	}
	if a.all == nil && json.Unmarshal(a.Payload, &a.all) != nil {
		return false
	}
	for name, want := range wanted {
		var got *string
		if json.Unmarshal(a.all[name], &got) != nil || got == nil || *got != want {
			return false
		}
	}
	return true
}
