package clientassertion

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

const (
	// MaxLifetime is the maximum time until a self-signed assertion expires. Used assertions are
	// stored for that long.
	MaxLifetime = 5 * time.Minute
	// skew is how far ahead the signer's clock may be.
	skew = 30 * time.Second
)

// KeyFor returns the client's key that must have signed the assertion: the key with the assertion's
// "kid", or the client's only key if the assertion has no "kid" (OpenID Connect Core 1.0 §10.1). It
// ignores keys for other algorithms.
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

// CheckSelfSigned checks the claims of an assertion signed by the client (private_key_jwt, OpenID
// Connect Core 1.0 §9). The issuer and the subject must be the client. The assertion must have
// exactly one audience, and it must be in audiences (RFC 7523 §3).
//
// Errors: ErrIssuer, ErrSubject, ErrAudience, ErrNoID, ErrNoExpiry, ErrExpired, ErrTooLong and
// ErrNotYetValid.
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

// checkAudience requires exactly one audience, which must be in wanted. If an assertion had a
// second audience, that recipient could replay it here.
func (a *Assertion) checkAudience(wanted ...string) error {
	if len(a.Claims.Audience) != 1 || !slices.Contains(wanted, a.Claims.Audience[0]) {
		return ErrAudience
	}
	return nil
}

// checkTimes requires an expiration time in the future, but at most longest from now. The skew
// applies to "iat" and "nbf" but not to "exp".
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
