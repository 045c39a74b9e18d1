package clientauth

import (
	"context"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/slowhash"
)

// bySecret authenticates a client by its secret. For an unknown client, it computes one dummy HMAC
// for each secret that the client may have meant.
//
// If the client may have meant two secrets, both are tried. If both are wrong, this is one failure,
// so attackers get at most two guesses for each failure.
//
// A correct secret is accepted regardless of failed attempts. A slow hash is computed only for
// clients that have one, and only if it is not yet known whether the secret is correct.
//
// Errors: oauth.ErrInvalidClient; oauth.ErrBusy; oauth.ErrTooManyFailures.
func (a *Authenticator) bySecret(ctx context.Context, realm *registry.Realm, credentials oauth.Credentials, source netip.Addr, now time.Time) (Caller, error) {
	client := realm.Client(credentials.ClientID)
	matched, slow, err := a.matchSecret(ctx, client, credentials.Secrets(), now)
	if current := realm.Client(credentials.ClientID); slow && err == nil && current != client {
		// The client was suspended or changed meanwhile. The result is remembered, so matching again
		// takes no time if the hash is the same.
		client = current
		matched, _, err = a.matchSecret(ctx, client, credentials.Secrets(), now)
	}
	if err != nil {
		return Caller{clientID: credentials.ClientID, Client: client}, err
	}
	caller, err := a.callerOf(realm, client, matched, credentials.ClientID, now)
	if err == nil {
		a.RecordUse(client, usage.Credential{Type: usage.Secret, ID: matched.ID}, now)
		return caller, nil
	}
	if !a.failures.Count(ratelimit.Attempt{Realm: realm.UID, Client: credentials.ClientID, Source: source}, now) {
		return caller, oauth.ErrTooManyFailures
	}
	return caller, err
}

// matchSecret returns the unexpired secret of the client that one of those sent matches, or nil, and whether a
// slow hash was used. A nil client has no secrets.
//
// The error is oauth.ErrBusy.
func (a *Authenticator) matchSecret(ctx context.Context, client *registry.Client, secrets []string, now time.Time) (matched *clientsecret.Stored, slow bool, err error) {
	var stored []clientsecret.Stored
	if client != nil {
		stored = client.Secrets
	}
	for _, secret := range secrets {
		if matched := clientsecret.VerifyHMAC(stored, secret, now); matched != nil {
			return matched, false, nil
		}
	}
	var (
		candidates []*clientsecret.Stored
		verifiers  []slowhash.Verifier
	)
	for i := range stored {
		if c := &stored[i]; c.Verifier.IsSlow() && c.Unexpired(now) {
			candidates, verifiers = append(candidates, c), append(verifiers, &c.Verifier)
		}
	}
	if len(candidates) == 0 {
		return nil, false, nil
	}
	i, err := a.SlowHashes.Check(ctx, client.UID, verifiers, secrets...)
	if i == slowhash.NoMatch {
		return nil, true, err
	}
	return candidates[i], true, err
}

// callerOf returns the caller, and why it must not get a token now; nil if it may.
// The client is nil if the client ID is unknown. matched is nil if the secret is wrong.
//
// The error is oauth.ErrInvalidClient with the reason.
func (a *Authenticator) callerOf(realm *registry.Realm, client *registry.Client, matched *clientsecret.Stored, clientID string, now time.Time) (Caller, error) {
	caller := Caller{clientID: clientID, Client: client}
	if matched != nil {
		caller.CredentialID = matched.ID
	}
	switch {
	case client == nil:
		return caller, errUnknownClient
	case matched == nil:
		return caller, errWrongSecret
	}
	return caller, a.checkUsable(realm, client, now)
}
