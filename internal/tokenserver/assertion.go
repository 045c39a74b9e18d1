package tokenserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/registry"
)

// byAssertion returns the client that has signed the request's assertion (RFC 7523 §2.2,
// private_key_jwt) and that may get a token now.
//
// Errors: oauth.ErrAssertionType; oauth.ErrClientIDMismatch; oauth.ErrInvalidClient, which
// wraps why, for logs; oauth.ErrAssertionsFull.
func (a *clientAuthenticator) byAssertion(realm *registry.Realm, p *oauth.Parameters, now time.Time) (*registry.Client, error) {
	if p.ClientAssertionType != oauth.AssertionTypeJWT {
		return nil, oauth.ErrAssertionType
	}
	assertion, err := clientassertion.Parse(p.ClientAssertion)
	if err != nil {
		return nil, invalidClient(err)
	}
	if p.ClientID != "" && p.ClientID != assertion.Claims.Subject {
		return nil, oauth.ErrClientIDMismatch
	}
	return a.bySignature(realm, assertion, now)
}

// bySignature takes an assertion that the client has signed with a key of its own. As with
// secrets, one of a client that doesn't exist costs the same, and the switches are looked at
// last. Only what is good is remembered: nobody else can use up a client's ids.
func (a *clientAuthenticator) bySignature(realm *registry.Realm, assertion *clientassertion.Assertion, now time.Time) (*registry.Client, error) {
	client, found := realm.ClientOrStandIn(assertion.Claims.Subject)
	if !found {
		return nil, invalidClient(assertion.Refuse(errUnknownClient))
	}
	key, err := assertion.KeyFor(client.PublicKeys)
	if err != nil {
		return nil, invalidClient(assertion.Refuse(err))
	}
	if err := assertion.Verify(key); err != nil {
		return nil, invalidClient(err)
	}
	if err := assertion.CheckSelfSigned(client.ID, []string{realm.Issuer, realm.Issuer + oauth.TokenPath}, now); err != nil {
		return nil, invalidClient(err)
	}
	if realm.Disabled || !client.Usable(now) {
		return nil, invalidClient(errNotUsable)
	}
	switch err := a.used.Use(client.UID, assertion, now); {
	case errors.Is(err, clientassertion.ErrFull):
		return nil, oauth.ErrAssertionsFull
	case err != nil:
		return nil, invalidClient(err)
	}
	return client, nil
}

var (
	errUnknownClient = errors.New("there is no such client")
	errNotUsable     = errors.New("the client or its realm is suspended, expired or not accepted")
)

// invalidClient is the one answer, with what only logs are told.
func invalidClient(why error) error {
	return fmt.Errorf("%w: %w", oauth.ErrInvalidClient, why)
}
