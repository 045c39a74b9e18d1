package tokenserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/limiter"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/registry"
)

// clientAuthenticator finds out which client of a realm makes a request, for every
// endpoint that clients authenticate at (RFC 6749 §2.3).
type clientAuthenticator struct {
	slow     *slowSecrets
	used     *clientassertion.Memory
	failures *limiter.Failures
	logger   *slog.Logger
}

func newClientAuthenticator(o Options) *clientAuthenticator {
	return &clientAuthenticator{
		slow: newSlowSecrets(o.Metrics), used: clientassertion.NewMemory(), failures: limiter.NewFailures(), logger: o.Logger,
	}
}

// authenticate returns the client that the request is from and that may use its
// credentials now. The source is the address that it comes from.
//
// Errors: oauth.ErrTwoMethods; oauth.ErrClientIDMismatch; oauth.ErrInvalidClient; oauth.ErrBusy; oauth.ErrTooManyFailures;
// those of byAssertion.
func (a *clientAuthenticator) authenticate(ctx context.Context, realm *registry.Realm, header http.Header, p *oauth.Parameters, source netip.Addr, now time.Time) (*registry.Client, error) {
	credentials, err := findCredentials(header, p)
	if err != nil {
		return nil, err
	}
	if p.ClientAssertion == "" {
		return a.bySecret(ctx, realm, credentials, source, now)
	}
	client, err := a.byAssertion(realm, p, now)
	if err != nil {
		a.logger.Debug("Client assertion refused", "realm", realm.Name, "reason", err)
	}
	attempt := limiter.Attempt{Realm: realm.UID, Client: p.ClientID, Source: source}
	if errors.Is(err, oauth.ErrInvalidClient) && !a.failures.Count(attempt, now) {
		err = oauth.ErrTooManyFailures
	}
	return client, err
}

// findCredentials returns what the client authenticates with, from the one place
// where it stands: the Authorization header or the body (RFC 6749 §2.3). An assertion alone
// leaves it empty.
func findCredentials(header http.Header, p *oauth.Parameters) (oauth.Credentials, error) {
	authorization := header["Authorization"]
	if len(authorization) > 1 {
		return oauth.Credentials{}, oauth.ErrTwoMethods
	}
	if len(authorization) == 1 && oauth.IsBasic(authorization[0]) {
		if p.ClientSecret != "" || p.ClientAssertion != "" {
			return oauth.Credentials{}, oauth.ErrTwoMethods
		}
		credentials, ok := oauth.ParseBasic(authorization[0])
		if !ok {
			return oauth.Credentials{}, oauth.ErrInvalidClient
		}
		if p.ClientID != "" && p.ClientID != credentials.ClientID {
			return oauth.Credentials{}, oauth.ErrClientIDMismatch
		}
		return credentials, nil
	}
	if p.ClientSecret != "" && p.ClientAssertion != "" {
		return oauth.Credentials{}, oauth.ErrTwoMethods
	}
	if len(authorization) == 0 && p.ClientAssertion != "" {
		return oauth.Credentials{}, nil
	}
	if len(authorization) == 1 || !oauth.ValidCredential(p.ClientID) || !oauth.ValidCredential(p.ClientSecret) {
		return oauth.Credentials{}, oauth.ErrInvalidClient
	}
	return oauth.Credentials{ClientID: p.ClientID, ClientSecret: p.ClientSecret}, nil
}

// bySecret returns the client whose secret is given and which may get a token
// now. A client that doesn't exist costs the same as one with a wrong secret, since
// another stands in for it, and the switches are looked at last, so that the time taken tells
// nothing about either.
//
// Where one client of the realm has a slow secret, all that fails is slow: otherwise the time
// would tell which ids are such clients'. What succeeds by a fast secret, or by a slow one that
// is known to be good, never waits, however often others have failed.
//
// Errors: oauth.ErrInvalidClient; oauth.ErrBusy; oauth.ErrTooManyFailures.
func (a *clientAuthenticator) bySecret(ctx context.Context, realm *registry.Realm, credentials oauth.Credentials, source netip.Addr, now time.Time) (*registry.Client, error) {
	client, found := realm.ClientOrStandIn(credentials.ClientID)
	var secrets []clientsecret.Credential
	if client != nil {
		secrets = client.Secrets
	}
	verified := clientsecret.VerifyFast(secrets, credentials.ClientSecret, now)
	if !found {
		client, verified = nil, false
	}
	if !verified && realm.HasSlowSecrets() {
		verified = a.slow.remembered(client, credentials.ClientSecret, now)
	}
	if verified && !realm.Disabled && client.Usable(now) {
		return client, nil
	}
	attempt := limiter.Attempt{Realm: realm.UID, Client: credentials.ClientID, Source: source}
	if !a.failures.Count(attempt, now) {
		return nil, oauth.ErrTooManyFailures
	}
	if verified || !realm.HasSlowSecrets() {
		return nil, oauth.ErrInvalidClient
	}
	verified, err := a.slow.verify(ctx, client, credentials.ClientSecret, now)
	switch {
	case err != nil:
		a.failures.TakeBack(attempt)
		return nil, err
	case !verified, realm.Disabled, !client.Usable(now):
		return nil, oauth.ErrInvalidClient
	}
	a.failures.TakeBack(attempt)
	return client, nil
}
