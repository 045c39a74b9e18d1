package clientassertion

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

const (
	// MaxLifetime is how far ahead an assertion that a client has signed itself may expire. It
	// must be remembered that long.
	MaxLifetime = 5 * time.Minute
	// skew is by how much the clock of who signs may be ahead.
	skew = 30 * time.Second
)

// KeyFor returns which of a client's keys shall have signed the assertion: that of its "kid",
// or where it has none the client's only key (OpenID Connect Core 1.0 §10.1). A key for another
// algorithm is none.
//
// The error is ErrKey.
func (a *Assertion) KeyFor(keys []signingkey.PublicKey) (signingkey.PublicKey, error) {
	if a.KeyID == "" && len(keys) == 1 && keys[0].Algorithm() == a.Algorithm {
		return keys[0], nil
	}
	for _, key := range keys {
		if a.KeyID != "" && key.ID() == a.KeyID && key.Algorithm() == a.Algorithm {
			return key, nil
		}
	}
	return signingkey.PublicKey{}, ErrKey
}

// CheckSelfSigned holds the claims of an assertion that a client has signed itself
// (private_key_jwt, OpenID Connect Core 1.0 §9) against the client and the audiences
// that the server goes by, one of which it must be for and for nobody else (RFC 7523 §3).
//
// Errors: ErrIssuer, ErrSubject, ErrAudience, ErrNoID, and those of the times.
func (a *Assertion) CheckSelfSigned(clientID string, audiences []string, now time.Time) error {
	switch {
	case a.Claims.Subject != clientID:
		return ErrSubject
	case a.Claims.Issuer != clientID:
		return ErrIssuer
	case a.Claims.ID == "":
		return ErrNoID
	}
	if err := a.checkAudience(audiences...); err != nil {
		return err
	}
	return a.checkTimes(now, MaxLifetime)
}

// checkAudience wants exactly one of these: an assertion that is for somebody else too could be
// passed on to us by him.
func (a *Assertion) checkAudience(wanted ...string) error {
	if len(a.Claims.Audience) != 1 || !slices.Contains(wanted, a.Claims.Audience[0]) {
		return ErrAudience
	}
	return nil
}

// checkTimes wants an end that is ahead, and by no more than longest. A beginning may be ahead by the
// skew; an end is never stretched.
func (a *Assertion) checkTimes(now time.Time, longest time.Duration) error {
	switch {
	case a.Claims.Expiry == nil:
		return ErrNoExpiry
	case !now.Before(a.Claims.Expiry.Time()):
		return ErrExpired
	case a.Claims.Expiry.Time().Sub(now) > longest:
		return ErrTooLong
	case a.Claims.NotBefore != nil && a.Claims.NotBefore.Time().After(now.Add(skew)),
		a.Claims.IssuedAt != nil && a.Claims.IssuedAt.Time().After(now.Add(skew)):
		return ErrNotYetValid
	}
	return nil
}
