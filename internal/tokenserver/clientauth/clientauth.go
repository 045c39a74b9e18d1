// Package clientauth authenticates a realm's clients by a client secret, by an assertion signed by
// the client, by a Kubernetes service account token, or by a token of another issuer that the realm
// trusts.
package clientauth

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/slowhash"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// Options contains the dependencies of an Authenticator. All fields except ClusterKeys, RefreshKeys,
// Count and RecordUse are required.
type Options struct {
	// Realm returns the realm that has the given name now, or nil.
	Realm func(name string) *registry.Realm
	// ClusterKeys returns the keys that verify service account tokens. If nil, the Authenticator
	// rejects these tokens.
	ClusterKeys ClusterKeys
	// RefreshKeys requests the keys of a realm's trusted issuer that signed a token with an unknown
	// key. It must not block.
	RefreshKeys func(realm, issuer string)
	// Count counts the result of an assertion. The issuer is the name of a trusted issuer,
	// clientassertion.IssuerKubernetes, IssuerSelf, or empty if the assertion states none of them. The
	// result is ResultAccepted, the reason in the audit log, or an OAuth error code.
	Count func(realm, issuer, result string)
	// RecordUse records that a credential has authenticated a client at the given time. It must not block.
	RecordUse func(client *registry.Client, credential usage.Credential, now time.Time)
	// SlowHashes checks secrets against slow hashes.
	SlowHashes *slowhash.Checker
	Logger     *slog.Logger
}

const (
	// IssuerSelf is the issuer of assertions that clients sign themselves.
	IssuerSelf = "self"
	// ResultAccepted is the result of a valid assertion.
	ResultAccepted = "accepted"
)

// Authenticator authenticates clients (RFC 6749 §2.3). It is safe for concurrent use.
type Authenticator struct {
	Options
	usedAssertions *replay.Memory
	failures       *ratelimit.Failures
}

// maxStoredAssertions is the maximum number of used assertions that have not expired yet. They use
// about 10 MiB.
const maxStoredAssertions = 1 << 18

// New returns an Authenticator. Its failure counts and used assertions are initially empty.
func New(o Options) *Authenticator {
	if o.RefreshKeys == nil {
		o.RefreshKeys = func(string, string) {}
	}
	if o.Count == nil {
		o.Count = func(string, string, string) {}
	}
	if o.RecordUse == nil {
		o.RecordUse = func(*registry.Client, usage.Credential, time.Time) {}
	}
	return &Authenticator{Options: o, usedAssertions: replay.New(maxStoredAssertions), failures: ratelimit.NewFailures()}
}

// Caller is the client that sent a request. If authentication failed, it is only the client that the
// request names, for the audit log and traces.
type Caller struct {
	// Client is the client that the request names, by its ID or as the holder of the subject of a token, or
	// nil if there is none.
	Client *registry.Client
	// CredentialID is the ID of the matching secret or key, or the name of the service account. It is
	// empty if nothing matched.
	CredentialID string
	// Issuer and Subject are the name of the issuer and the subject of a token of a third party. They
	// are empty unless its signature is valid.
	Issuer, Subject string

	clientID     string // as sent, even if no such client exists, or that of the holder of the subject
	statedIssuer string // see Options.Count
}

// Credential identifies the credential that authenticated the client.
func (c *Caller) Credential() token.Credential {
	return token.Credential{Method: c.statedIssuer, Issuer: c.Issuer, Subject: c.Subject, ID: c.CredentialID}
}

// Authenticate verifies the credentials in a request and returns the client that sent it. It also
// rejects clients that are suspended or expired, and all clients of a suspended realm. The source
// is the address from which the request was sent.
//
// Errors: oauth.ErrTwoMethods; oauth.ErrClientIDMismatch; oauth.ErrInvalidClient; oauth.ErrBusy;
// oauth.ErrTooManyFailures; those of byAssertion.
func (a *Authenticator) Authenticate(ctx context.Context, realm *registry.Realm, header http.Header, p *oauth.Parameters, source netip.Addr, now time.Time) (Caller, error) {
	credentials, err := findCredentials(header, p)
	if err != nil {
		return Caller{clientID: credentials.ClientID, Client: realm.Client(credentials.ClientID)}, err
	}
	if p.ClientAssertion == "" {
		return a.bySecret(ctx, realm, credentials, source, now)
	}
	caller, err := a.byAssertion(ctx, realm, p, now)
	err = a.concludeAssertion(realm, caller, err, source, now)
	return caller, err
}

// concludeAssertion logs and counts the result of an assertion, and limits failures.
//
// The error is err or oauth.ErrTooManyFailures.
func (a *Authenticator) concludeAssertion(realm *registry.Realm, caller Caller, err error, source netip.Addr, now time.Time) error {
	a.Count(realm.Name, cmp.Or(caller.Issuer, caller.statedIssuer), resultOf(err))
	if err != nil {
		a.Logger.Debug("Rejected assertion", "realm", realm.Name, "issuer", caller.Issuer, "reason", err)
	}
	attempt := ratelimit.Attempt{Realm: realm.UID, Client: caller.clientID, Source: source}
	if errors.Is(err, oauth.ErrInvalidClient) && !a.failures.Count(attempt, now) {
		return oauth.ErrTooManyFailures
	}
	return err
}

// checkUsable returns the reason to reject a client despite valid credentials. The suspension and
// expiration checks run after the credential checks, so that they reveal nothing without valid
// credentials.
//
// Credentials can take seconds to verify. A realm that was suspended or deleted in the meantime issues
// no token.
//
// The error is oauth.ErrInvalidClient with the reason.
func (a *Authenticator) checkUsable(realm *registry.Realm, client *registry.Client, now time.Time) error {
	current := a.Realm(realm.Name)
	switch {
	case current == nil, current.UID != realm.UID, current.Disabled:
		return errRealmDisabled
	case client.Disabled:
		return errClientDisabled
	case !client.Usable(now):
		return errClientExpired
	}
	return nil
}
