// Package clientauth authenticates the clients of a realm by a secret, by an assertion that they
// signed, or by the token of a Kubernetes service account.
package clientauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/limiter"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Options are the dependencies of an Authenticator. All but ClusterKeys are required.
type Options struct {
	// ClusterKeys verifies service account tokens. If it is nil, they are rejected.
	ClusterKeys ClusterKeys
	// Argon2idChecks counts the checks of Argon2id-hashed secrets by outcome.
	Argon2idChecks *prometheus.CounterVec
	Logger         *slog.Logger
}

// Authenticator authenticates clients (RFC 6749 §2.3). It is safe for concurrent use.
type Authenticator struct {
	slow     *slowSecrets
	used     *clientassertion.Memory
	cluster  ClusterKeys
	failures *limiter.Failures
	logger   *slog.Logger
}

// New returns an Authenticator.
func New(o Options) *Authenticator {
	return &Authenticator{
		slow: newSlowSecrets(o.Argon2idChecks), used: clientassertion.NewMemory(), cluster: o.ClusterKeys,
		failures: limiter.NewFailures(), logger: o.Logger,
	}
}

// Identity is who a request is from: on an error only who it says it is from, for the audit.
type Identity struct {
	clientID string // as it was given
	// Client is the client of that ID; nil: there is none.
	Client *registry.Client
	// SecretID is the ID of the secret, key or service account that matched.
	SecretID string
}

// Authenticate returns the client that the request is from and that may use its
// credentials now. The source is the address that it comes from.
//
// Errors: oauth.ErrTwoMethods; oauth.ErrClientIDMismatch; oauth.ErrInvalidClient; oauth.ErrBusy; oauth.ErrTooManyFailures;
// those of byAssertion.
func (a *Authenticator) Authenticate(ctx context.Context, realm *registry.Realm, header http.Header, p *oauth.Parameters, source netip.Addr, now time.Time) (Identity, error) {
	credentials, err := findCredentials(header, p)
	if err != nil {
		return Identity{clientID: p.ClientID}, err
	}
	if p.ClientAssertion == "" {
		return a.bySecret(ctx, realm, credentials, source, now)
	}
	who, err := a.byAssertion(ctx, realm, p, now)
	if err != nil {
		a.logger.Debug("Client assertion refused", "realm", realm.Name, "reason", err)
	}
	attempt := limiter.Attempt{Realm: realm.UID, Client: who.clientID, Source: source}
	if errors.Is(err, oauth.ErrInvalidClient) && !a.failures.Count(attempt, now) {
		err = oauth.ErrTooManyFailures
	}
	return who, err
}

// findCredentials returns what the client authenticates with, from the one place
// where it stands: the Authorization header or the body (RFC 6749 §2.3). An assertion alone
// leaves it empty.
func findCredentials(header http.Header, p *oauth.Parameters) (oauth.Credentials, error) {
	authorization := header["Authorization"]
	switch {
	case len(authorization) > 1, p.ClientSecret != "" && p.ClientAssertion != "":
		return oauth.Credentials{}, oauth.ErrTwoMethods
	case len(authorization) == 1 && oauth.IsBasic(authorization[0]):
		return basicCredentials(authorization[0], p)
	case len(authorization) == 1:
		return oauth.Credentials{}, errNoCredentials
	case p.ClientAssertion != "":
		return oauth.Credentials{}, nil
	case !oauth.ValidCredential(p.ClientID) || !oauth.ValidCredential(p.ClientSecret):
		return oauth.Credentials{}, errNoCredentials
	}
	return oauth.Credentials{ClientID: p.ClientID, ClientSecret: p.ClientSecret}, nil
}

func basicCredentials(authorization string, p *oauth.Parameters) (oauth.Credentials, error) {
	if p.ClientSecret != "" || p.ClientAssertion != "" {
		return oauth.Credentials{}, oauth.ErrTwoMethods
	}
	credentials, ok := oauth.ParseBasic(authorization)
	if !ok {
		return oauth.Credentials{}, errNoCredentials
	}
	if p.ClientID != "" && p.ClientID != credentials.ClientID {
		return oauth.Credentials{}, oauth.ErrClientIDMismatch
	}
	return credentials, nil
}

// bySecret authenticates a client by its secret. An unknown client costs one dummy HMAC, and the
// suspension and expiration checks run only after the secret was found right.
//
// A fast secret, or an Argon2id-hashed one that was verified before, is accepted without waiting,
// however often others have failed. Argon2id runs only for a client that has such a secret.
//
// Errors: oauth.ErrInvalidClient; oauth.ErrBusy; oauth.ErrTooManyFailures.
func (a *Authenticator) bySecret(ctx context.Context, realm *registry.Realm, credentials oauth.Credentials, source netip.Addr, now time.Time) (Identity, error) {
	client := realm.Client(credentials.ClientID)
	var secrets []clientsecret.Credential
	if client != nil {
		secrets = client.Secrets
	}
	right := clientsecret.VerifyFast(secrets, credentials.ClientSecret, now)
	var argon2id []*clientsecret.Credential
	if right == nil {
		argon2id = argon2idCredentials(client, now)
		right = a.slow.remembered(client, argon2id, credentials.ClientSecret)
	}
	who, err := judge(realm, client, right, credentials.ClientID, now)
	if err == nil {
		return who, nil
	}
	attempt := limiter.Attempt{Realm: realm.UID, Client: credentials.ClientID, Source: source}
	if !a.failures.Count(attempt, now) {
		return who, oauth.ErrTooManyFailures
	}
	if right != nil || len(argon2id) == 0 {
		return who, err
	}
	if right, err = a.slow.verify(ctx, client, argon2id, credentials.ClientSecret); err != nil {
		a.failures.TakeBack(attempt)
		return who, err
	}
	if who, err = judge(realm, client, right, credentials.ClientID, now); err == nil {
		a.failures.TakeBack(attempt)
	}
	return who, err
}

// judge says whether a client, nil for none, may get a token now with the secret that was
// right, nil for none.
//
// The error is oauth.ErrInvalidClient with the reason.
func judge(realm *registry.Realm, client *registry.Client, right *clientsecret.Credential, clientID string, now time.Time) (Identity, error) {
	who := Identity{clientID: clientID, Client: client}
	if right != nil {
		who.SecretID = right.ID
	}
	switch {
	case client == nil:
		return who, errUnknownClient
	case right == nil:
		return who, errWrongSecret
	}
	return who, usable(realm, client, now)
}

// usable says whether a client that has authenticated may get a token now.
//
// The error is oauth.ErrInvalidClient with the reason.
func usable(realm *registry.Realm, client *registry.Client, now time.Time) error {
	switch {
	case realm.Disabled:
		return errRealmDisabled
	case client.Disabled:
		return errClientDisabled
	case !client.Usable(now):
		return errClientExpired
	}
	return nil
}
