package clientauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// byAssertion returns the client that the request's assertion (RFC 7523 §2.2) is of, and that may get
// a token now: one that the client has signed itself (private_key_jwt), or the token of a
// service account that may act as the client.
//
// Errors: oauth.ErrAssertionType; oauth.ErrClientIDMismatch; oauth.ErrInvalidClient, which
// wraps why, for the audit and for logs; oauth.ErrAssertionsFull; those of byServiceAccount.
func (a *Authenticator) byAssertion(ctx context.Context, realm *registry.Realm, p *oauth.Parameters, now time.Time) (Identity, error) {
	if p.ClientAssertionType != oauth.AssertionTypeJWT {
		return Identity{clientID: p.ClientID}, oauth.ErrAssertionType
	}
	assertion, err := clientassertion.Parse(p.ClientAssertion)
	if err != nil {
		return Identity{clientID: p.ClientID}, wrongAssertion(err)
	}
	if assertion.OfServiceAccount() {
		return a.byServiceAccount(ctx, realm, p.ClientID, assertion, now)
	}
	if p.ClientID != "" && p.ClientID != assertion.Claims.Subject {
		return Identity{clientID: p.ClientID}, oauth.ErrClientIDMismatch
	}
	return a.bySignature(realm, assertion, now)
}

// bySignature takes an assertion that the client has signed with a key of its own. As with
// secrets, the suspension and expiration checks run last. Only what is good is remembered: nobody else can use up a client's ids.
func (a *Authenticator) bySignature(realm *registry.Realm, assertion *clientassertion.Assertion, now time.Time) (Identity, error) {
	who := Identity{clientID: assertion.Claims.Subject}
	client := realm.Client(who.clientID)
	if client == nil {
		return who, fmt.Errorf("%w: %w", errUnknownClient, errNoClient)
	}
	who.Client = client
	key, err := assertion.KeyFor(client.PublicKeys)
	if err != nil {
		return who, wrongAssertion(err)
	}
	if err := assertion.Verify(key); err != nil {
		return who, wrongAssertion(err)
	}
	if err := assertion.CheckSelfSigned(client.ID, []string{realm.Issuer, realm.Issuer + oauth.TokenPath}, now); err != nil {
		return who, wrongAssertion(err)
	}
	who.SecretID = key.ID()
	if err := usable(realm, client, now); err != nil {
		return who, err
	}
	switch err := a.used.Use(client.UID, assertion, now); {
	case errors.Is(err, clientassertion.ErrFull):
		return who, oauth.ErrAssertionsFull
	case err != nil:
		return who, wrongAssertion(err)
	}
	return who, nil
}

var errNoClient = errors.New("there is no such client")

// wrongAssertion is the one answer, with what only logs are told.
func wrongAssertion(why error) error {
	return fmt.Errorf("%w: %w", errWrongAssertion, why)
}
