package clientauth

import (
	"context"
	"errors"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// ClusterKeys returns the keys that verify the cluster's service account tokens.
type ClusterKeys interface {
	// Key returns the cluster's issuers and the key with the given ID. It refreshes the keys if this
	// one is unknown.
	//
	// Errors: clientassertion.ErrNoKeys until the keys are known; jws.ErrKey.
	Key(ctx context.Context, id string) (issuers []string, key signingkey.PublicKey, err error)
	// Known is like Key, but never refreshes the keys.
	Known(id string) (issuers []string, key signingkey.PublicKey, err error)
	// RuleOut refreshes the keys if the cluster may have a key with the given ID that isn't known.
	// It is for tokens of the given issuer that another key verifies.
	//
	// Errors: clientassertion.ErrNoKeys if the API server can't be asked.
	RuleOut(ctx context.Context, issuer, id string) error
}

var errServiceAccountsDisabled = errors.New("service account tokens are not accepted")

// signedByCluster reports whether a key of the cluster that is known verifies the signature, and returns
// the cluster's issuers.
func (a *Authenticator) signedByCluster(assertion *clientassertion.Assertion) (issuers []string, ok bool) {
	if a.ClusterKeys == nil {
		return nil, false
	}
	issuers, key, err := a.ClusterKeys.Known(assertion.KeyID)
	return issuers, err == nil && assertion.Verify(key) == nil
}

// verifyServiceAccount verifies a service account token for the given realm. If the signature is
// valid, it returns the assertion also on error.
//
// Errors: oauth.ErrNoClusterKeys; oauth.ErrInvalidClient, wrapping the reason.
func (a *Authenticator) verifyServiceAccount(ctx context.Context, realm *registry.Realm, assertion *clientassertion.Assertion, now time.Time) (proven, error) {
	if a.ClusterKeys == nil {
		return proven{}, wrongAssertion(errServiceAccountsDisabled)
	}
	issuers, key, err := a.ClusterKeys.Key(ctx, assertion.KeyID)
	switch {
	case errors.Is(err, clientassertion.ErrNoKeys):
		return proven{}, oauth.ErrNoClusterKeys
	case err != nil:
		return proven{}, wrongAssertion(err)
	}
	if err := assertion.Verify(key); err != nil {
		return proven{}, wrongAssertion(err)
	}
	return checkServiceAccount(issuers, realm, assertion, now)
}

// checkServiceAccount checks the claims of a token that the cluster has signed. It returns the assertion also
// on error.
//
// The error is oauth.ErrInvalidClient, wrapping the reason.
func checkServiceAccount(issuers []string, realm *registry.Realm, assertion *clientassertion.Assertion, now time.Time) (proven, error) {
	account, err := assertion.CheckServiceAccount(issuers, realm.Issuer, now)
	if err != nil {
		return proven{assertion: assertion}, wrongAssertion(err)
	}
	return proven{assertion: assertion, account: account}, nil
}
