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

// ClusterKeys are the keys by which tokens of the cluster's service accounts are verified.
type ClusterKeys interface {
	// Key returns the cluster's issuer and its key of that id.
	//
	// Errors: clientassertion.ErrNoKeys while nothing is known; clientassertion.ErrKey.
	Key(ctx context.Context, id string) (issuer string, key signingkey.PublicKey, err error)
}

var errNoCluster = errors.New("tokens of service accounts are not taken here")

// byServiceAccount takes the token of a service account, which a pod presents as its
// assertion. It names no client, and an account may act as several: the request says as which.
//
// It isn't used up: a pod has the same one until it is renewed.
//
// Errors: oauth.ErrNoClientID; oauth.ErrNoClusterKeys; oauth.ErrInvalidClient, which wraps why.
func (a *Authenticator) byServiceAccount(ctx context.Context, realm *registry.Realm, clientID string, assertion *clientassertion.Assertion, now time.Time) (Identity, error) {
	who := Identity{clientID: clientID}
	if clientID == "" {
		return who, oauth.ErrNoClientID
	}
	account, err := a.verifyServiceAccount(ctx, realm, assertion, now)
	client := realm.Client(clientID)
	who.Client = client
	switch {
	case err != nil:
		return who, err
	case client == nil:
		return who, fmt.Errorf("%w: %w", errUnknownClient, errNoClient)
	case !slices.Contains(client.ServiceAccounts, account):
		return who, wrongAssertion(clientassertion.ErrAccount)
	}
	who.SecretID = account.Name
	return who, usable(realm, client, now)
}

// verifyServiceAccount returns which service account a token for the realm is of.
func (a *Authenticator) verifyServiceAccount(ctx context.Context, realm *registry.Realm, assertion *clientassertion.Assertion, now time.Time) (account clientassertion.ServiceAccount, err error) {
	if a.cluster == nil {
		return account, wrongAssertion(errNoCluster)
	}
	issuer, key, err := a.cluster.Key(ctx, assertion.KeyID)
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
