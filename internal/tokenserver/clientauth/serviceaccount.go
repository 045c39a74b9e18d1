package clientauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// ClusterKeys returns the keys that verify the cluster's service account tokens.
type ClusterKeys interface {
	// Key returns the cluster's issuer and the key with the given ID.
	//
	// Errors: clientassertion.ErrNoKeys until the keys are known; clientassertion.ErrKey.
	Key(ctx context.Context, id string) (issuer string, key signingkey.PublicKey, err error)
}

var errServiceAccountsDisabled = errors.New("service account tokens are not accepted")

// byServiceAccount authenticates a client by the service account token that a Pod sent as its
// assertion. The token doesn't identify a client, and several clients may share a service account,
// so the request must include the client ID.
//
// A Pod sends the same token until the kubelet renews it, so tokens may be reused.
//
// Errors: oauth.ErrNoClientID; oauth.ErrNoClusterKeys; oauth.ErrInvalidClient, wrapping the reason.
func (a *Authenticator) byServiceAccount(ctx context.Context, realm *registry.Realm, clientID string, assertion *clientassertion.Assertion, now time.Time) (Identity, error) {
	identity := Identity{clientID: clientID}
	if clientID == "" {
		return identity, oauth.ErrNoClientID
	}
	account, err := a.verifyServiceAccount(ctx, realm, assertion, now)
	client := realm.Client(clientID)
	identity.Client = client
	switch {
	case err != nil:
		return identity, err
	case client == nil:
		return identity, fmt.Errorf("%w: %w", errUnknownClient, errClientNotFound)
	case !slices.Contains(client.ServiceAccounts, account):
		return identity, wrongAssertion(clientassertion.ErrAccount)
	}
	identity.SecretID = account.Name
	return identity, checkUsable(realm, client, now)
}

// verifyServiceAccount verifies a token for the given realm and returns its service account.
func (a *Authenticator) verifyServiceAccount(ctx context.Context, realm *registry.Realm, assertion *clientassertion.Assertion, now time.Time) (account clientassertion.ServiceAccount, err error) {
	if a.clusterKeys == nil {
		return account, wrongAssertion(errServiceAccountsDisabled)
	}
	issuer, key, err := a.clusterKeys.Key(ctx, assertion.KeyID)
	switch {
	case errors.Is(err, clientassertion.ErrNoKeys):
		return account, oauth.ErrNoClusterKeys
	case err != nil:
		return account, wrongAssertion(err)
	}
	if err := assertion.Verify(key); err != nil {
		return account, wrongAssertion(err)
	}
	if account, err = assertion.CheckServiceAccount(issuer, realm.Issuer, now); err != nil {
		return account, wrongAssertion(err)
	}
	return account, nil
}
