package clientauth

import (
	"context"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/limiter"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// bySecret authenticates a client by its secret. For an unknown client, it computes one dummy HMAC.
//
// A correct secret is accepted immediately, regardless of failed attempts, if it is HMAC-hashed or
// was already verified with Argon2id. Argon2id runs only for clients that have an Argon2id-hashed
// secret, and only within the failure limit.
//
// Errors: oauth.ErrInvalidClient; oauth.ErrBusy; oauth.ErrTooManyFailures.
func (a *Authenticator) bySecret(ctx context.Context, realm *registry.Realm, credentials oauth.Credentials, source netip.Addr, now time.Time) (Identity, error) {
	client := realm.Client(credentials.ClientID)
	var secrets []clientsecret.Credential
	if client != nil {
		secrets = client.Secrets
	}
	matched := clientsecret.VerifyHMAC(secrets, credentials.ClientSecret, now)
	var argon2id []*clientsecret.Credential
	if matched == nil {
		argon2id = argon2idCredentials(client, now)
		matched = a.argon2id.remembered(client, argon2id, credentials.ClientSecret)
	}
	identity, err := identify(realm, client, matched, credentials.ClientID, now)
	if err == nil {
		return identity, nil
	}

	attempt := limiter.Attempt{Realm: realm.UID, Client: credentials.ClientID, Source: source}
	if !a.failures.Count(attempt, now) {
		return identity, oauth.ErrTooManyFailures
	}
	if matched != nil || len(argon2id) == 0 {
		return identity, err
	}
	if matched, err = a.argon2id.verify(ctx, client, argon2id, credentials.ClientSecret); err != nil {
		a.failures.Undo(attempt)
		return identity, err
	}
	if identity, err = identify(realm, client, matched, credentials.ClientID, now); err == nil {
		a.failures.Undo(attempt)
	}
	return identity, err
}

// identify returns the identity of a client, and an error if the client must not get a token now.
// The client is nil if the client ID is unknown. matched is nil if the secret is wrong.
//
// The error is oauth.ErrInvalidClient with the reason.
func identify(realm *registry.Realm, client *registry.Client, matched *clientsecret.Credential, clientID string, now time.Time) (Identity, error) {
	identity := Identity{clientID: clientID, Client: client}
	if matched != nil {
		identity.SecretID = matched.ID
	}
	switch {
	case client == nil:
		return identity, errUnknownClient
	case matched == nil:
		return identity, errWrongSecret
	}
	return identity, checkUsable(realm, client, now)
}
