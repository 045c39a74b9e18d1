package clientassertion

import (
	"errors"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

const (
	// MaxLifetime is the maximum time until a self-signed assertion expires, on the signer's clock.
	// Used assertions are stored for that long.
	MaxLifetime = 5 * time.Minute
	// skew is how far ahead the signer's clock may be.
	skew = 30 * time.Second
)

// VerifyWithAny checks the signature with the client's keys and returns the key that verified it. An
// assertion with a "kid" is verified only with the key of that ID; one without is verified with each
// key. Keys for other algorithms are ignored.
//
// Errors: jws.ErrKey if no key has the assertion's "kid" and algorithm, jws.ErrSignature.
func (a *Assertion) VerifyWithAny(keys []signingkey.PublicKey) (signingkey.PublicKey, error) {
	err := jws.ErrKey
	for _, key := range keys {
		if a.KeyID != "" && key.ID() != a.KeyID {
			continue
		}
		switch verifyErr := a.Verify(key); {
		case verifyErr == nil:
			return key, nil
		case errors.Is(verifyErr, jws.ErrSignature):
			err = jws.ErrSignature
		}
	}
	return signingkey.PublicKey{}, err
}

// CheckSelfSigned checks the claims of an assertion signed by the client (private_key_jwt, OpenID
// Connect Core 1.0 §9). The issuer and the subject must be the client. The only audience must be the
// issuer of the realm, as RFC 10070 requires. The token endpoint isn't accepted: another server at
// which the client is registered could state it as its own, get an assertion for it, and use that here.
//
// Errors: ErrIssuer, ErrSubject, ErrAudience, ErrNoID, ErrNoExpiry, ErrExpired, ErrTooLong and
// ErrNotYetValid.
func (a *Assertion) CheckSelfSigned(clientID, issuer string, now time.Time) error {
	switch {
	case a.Claims.Subject != clientID:
		return ErrSubject
	case a.Claims.Issuer != clientID:
		return ErrIssuer
	case a.Claims.ID == "":
		return ErrNoID
	}
	if err := a.checkAudience(issuer); err != nil {
		return err
	}
	return a.checkTimes(now, MaxLifetime)
}

// checkAudience requires exactly one audience. If an assertion had a second one, that recipient could
// replay it here.
func (a *Assertion) checkAudience(wanted string) error {
	if len(a.Claims.Audience) != 1 || a.Claims.Audience[0] != wanted {
		return ErrAudience
	}
	return nil
}

// checkTimes requires an expiration time in the future, but at most longest from now on the signer's
// clock. An assertion is never accepted after "exp".
func (a *Assertion) checkTimes(now time.Time, longest time.Duration) error {
	switch {
	case a.Claims.Expiry == nil:
		return ErrNoExpiry
	case !now.Before(a.Claims.Expiry.Time()):
		return ErrExpired
	case a.Claims.Expiry.Time().Sub(now) > longest+skew:
		return ErrTooLong
	case a.Claims.NotBefore != nil && a.Claims.NotBefore.Time().After(now.Add(skew)),
		a.Claims.IssuedAt != nil && a.Claims.IssuedAt.Time().After(now.Add(skew)):
		return ErrNotYetValid
	}
	return nil
}
