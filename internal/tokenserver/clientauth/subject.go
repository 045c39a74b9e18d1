package clientauth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

var errNotASubject = errors.New("the realm does not accept tokens of this issuer as subject tokens")

// accessTokenType is the "typ" of access tokens (RFC 9068 §2.1), which no ID token has.
const accessTokenType = "at+jwt"

// VerifySubject verifies a subject token of a trusted issuer (RFC 8693 §2.1). The kind is its
// "subject_token_type".
//
// Errors: oauth.ErrNoClusterKeys; oauth.ErrInvalidSubject with the reason.
func (a *Authenticator) VerifySubject(ctx context.Context, realm *registry.Realm, compact, kind string, now time.Time) (*registry.Issuer, *clientassertion.Assertion, error) {
	assertion, err := clientassertion.ParseSubject(compact)
	if err == nil && kind == oauth.TypeIDToken && assertion.Type == accessTokenType {
		err = clientassertion.ErrType
	}
	if err != nil {
		return nil, nil, WrongSubject(err)
	}
	token, err := a.verifyThirdParty(ctx, realm, assertion, now)
	issuer := trustedIssuer(realm, assertion)
	if err == nil && (token.issuer == nil || !token.issuer.Subjects) {
		err = wrongAssertion(errNotASubject)
	}
	if issuer != nil {
		a.Count(realm.Name, issuer.Name, resultOf(err))
	}
	if err == nil {
		return token.issuer, assertion, nil
	}
	if errors.Is(err, oauth.ErrInvalidClient) {
		return nil, nil, WrongSubject(err)
	}
	return nil, nil, err
}

// VerifyIDJAG verifies the signature of an ID-JAG and that the realm accepts those of its issuer.
//
// The error is oauth.ErrInvalidGrant with the reason.
func (a *Authenticator) VerifyIDJAG(realm *registry.Realm, assertion *clientassertion.Assertion) (*registry.Issuer, error) {
	issuer := realm.IDJAGIssuer(assertion.Claims.Issuer)
	if issuer == nil {
		return nil, WrongGrant(clientassertion.ErrIssuer)
	}
	err := a.verifySignature(realm, issuer, assertion)
	a.Count(realm.Name, issuer.Name, resultOf(err))
	if err != nil {
		return nil, WrongGrant(err)
	}
	return issuer, nil
}

// LimitFailures counts a rejected subject token or ID-JAG of an authenticated client.
//
// The error is err or oauth.ErrTooManyFailures.
func (a *Authenticator) LimitFailures(realm *registry.Realm, client *registry.Client, source netip.Addr, err error, now time.Time) error {
	if _, rejected := errors.AsType[*RejectionError](err); rejected && !a.failures.Count(ratelimit.Attempt{Realm: realm.UID, Client: client.ID, Source: source}, now) {
		return oauth.ErrTooManyFailures
	}
	return err
}

// WrongSubject returns the response to a subject token that isn't valid. The reason appears only in logs.
func WrongSubject(reason error) error { return wrong(oauth.ErrInvalidSubject, reason) }

// WrongGrant returns the response to an ID-JAG that isn't valid. The reason appears only in logs.
func WrongGrant(reason error) error { return wrong(oauth.ErrInvalidGrant, reason) }

// wrong keeps the reason of an unknown key, which is usually a mistake of the configuration.
func wrong(response *oauth.Error, reason error) error {
	rejection := &RejectionError{response, audit.ReasonWrongSubject}
	if errors.Is(reason, errUnknownKey) {
		rejection.Reason = audit.ReasonUnknownKey
	}
	return fmt.Errorf("%w: %w", rejection, reason)
}

// NotAllowed returns the response to an exchange that isn't allowed. If no rule allows it, the response is the
// same as to an invalid token. The reason appears only in logs.
func NotAllowed(response *oauth.Error, reason error) error {
	return fmt.Errorf("%w: %w", &RejectionError{response, audit.ReasonExchangeNotAllowed}, reason)
}
