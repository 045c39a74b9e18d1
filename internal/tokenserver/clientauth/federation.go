package clientauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// proven is what a verified token of a third party proves.
type proven struct {
	// issuer is nil for the cluster.
	issuer    *registry.Issuer
	assertion *clientassertion.Assertion
	// account is set only for the cluster's tokens.
	account clientassertion.ServiceAccount
}

// issuerName returns the name of the issuer in the realm, for the audit log and metrics.
func (p *proven) issuerName() string {
	if p.issuer == nil {
		return clientassertion.IssuerKubernetes
	}
	return p.issuer.Name
}

var errNoAuthentication = errors.New("the realm does not accept tokens of this issuer for client authentication")

// ofThirdParty reports whether an assertion states that the cluster or a trusted issuer of the realm
// signed it. A client ID can't contain a colon, so no client's own assertion does.
func ofThirdParty(realm *registry.Realm, assertion *clientassertion.Assertion) bool {
	return assertion.OfServiceAccount() || trustedIssuer(realm, assertion) != nil
}

// trustedIssuer returns the trusted issuer that an assertion states, or nil.
func trustedIssuer(realm *registry.Realm, assertion *clientassertion.Assertion) *registry.Issuer {
	return realm.TrustedIssuer(assertion.Issuer(), assertion.Claims.Audience)
}

// statedIssuer returns the name of the third party that an assertion states as its issuer. It returns
// IssuerSelf if the assertion states the client as its issuer, and otherwise an empty string.
func statedIssuer(realm *registry.Realm, assertion *clientassertion.Assertion) string {
	if issuer := trustedIssuer(realm, assertion); issuer != nil {
		return issuer.Name
	}
	switch {
	case assertion.OfServiceAccount():
		return clientassertion.IssuerKubernetes
	case assertion.Claims.Issuer == assertion.Claims.Subject:
		return IssuerSelf
	}
	return ""
}

// byFederation authenticates a client by a token of the cluster or of a trusted issuer. The token
// doesn't name the client, and it can match several clients. The client ID in the request therefore
// selects the client. Without a client ID, it is the client that holds the token's subject.
//
// A workload sends the same token until it gets a new one, so tokens may be reused.
//
// Errors: oauth.ErrNoClientID; oauth.ErrNoClusterKeys; oauth.ErrInvalidClient, wrapping the reason.
func (a *Authenticator) byFederation(ctx context.Context, realm *registry.Realm, clientID string, assertion *clientassertion.Assertion, now time.Time) (Caller, error) {
	caller := Caller{clientID: clientID, statedIssuer: statedIssuer(realm, assertion)}
	token, err := a.verifyThirdParty(ctx, realm, assertion, now)
	// Look up the client only now, because it may have been suspended or changed while the cluster's
	// keys loaded.
	caller.Client = realm.Client(clientID)
	if token.assertion != nil {
		caller.describe(&token)
	}
	if err != nil {
		return caller, err
	}
	if token.issuer != nil && !token.issuer.Authenticates {
		return caller, wrongAssertion(errNoAuthentication)
	}
	if clientID == "" {
		caller.Client = token.holder(realm)
	}
	switch {
	case caller.Client == nil && clientID == "":
		return caller, oauth.ErrNoClientID
	case caller.Client == nil:
		return caller, fmt.Errorf("%w: %w", errUnknownClient, errClientNotFound)
	}
	caller.clientID = caller.Client.ID
	matched, err := token.match(caller.Client)
	if err != nil {
		return caller, wrongAssertion(err)
	}
	if caller.CredentialID = assertion.KeyID; token.issuer == nil {
		caller.CredentialID = token.account.Name
	}
	if err := a.checkUsable(realm, caller.Client, now); err != nil {
		return caller, err
	}
	for i := range caller.Client.Identities {
		if matched&(1<<i) != 0 {
			a.RecordUse(caller.Client, usage.Credential{Type: usage.Identity, ID: caller.Client.Identities[i].ID}, now)
		}
	}
	return caller, nil
}

// describe records the origin of a token whose signature was verified.
func (c *Caller) describe(token *proven) {
	c.Issuer = token.issuerName()
	if subject := token.assertion.Claims.Subject; len(subject) <= clientassertion.MaxSubject {
		c.Subject = subject
	}
}

// verifyThirdParty verifies a token of the cluster or of a trusted issuer. The key that verifies the
// signature determines which of the two issued it: clusters often have the same issuer URL, and all
// service accounts have subjects of the same form. The cluster's own keys take precedence, so that
// another issuer can't claim the cluster's tokens by publishing the same key.
//
// If err is not nil, only the issuer and the assertion of the result are set, and only if the
// signature is valid.
func (a *Authenticator) verifyThirdParty(ctx context.Context, realm *registry.Realm, assertion *clientassertion.Assertion, now time.Time) (proven, error) {
	if assertion.OfServiceAccount() {
		if issuers, ok := a.signedByCluster(assertion); ok {
			return checkServiceAccount(issuers, realm, assertion, now)
		}
	}
	issuer := trustedIssuer(realm, assertion)
	if issuer == nil {
		if assertion.OfServiceAccount() {
			return a.verifyServiceAccount(ctx, realm, assertion, now)
		}
		return proven{}, wrongAssertion(clientassertion.ErrIssuer)
	}
	err := a.verifySignature(realm, issuer, assertion)
	if err == nil {
		return a.verifyForeign(ctx, realm, issuer, assertion, now)
	}
	if assertion.OfServiceAccount() && assertion.KeyID != "" {
		// The cluster may also have begun to sign with a new key.
		token, err := a.verifyServiceAccount(ctx, realm, assertion, now)
		if err == nil || token.assertion != nil || errors.Is(err, oauth.ErrNoClusterKeys) {
			return token, err
		}
	}
	return proven{}, err
}

// verifySignature verifies the signature of a token with the keys of a trusted issuer. A token without a
// "kid" is verified only if the issuer has few keys for its algorithm.
//
// The error is oauth.ErrInvalidClient, wrapping the reason.
func (a *Authenticator) verifySignature(realm *registry.Realm, issuer *registry.Issuer, assertion *clientassertion.Assertion) error {
	keys, known := issuer.KeysOf(assertion.KeyID, assertion.Algorithm)
	if assertion.KeyID == "" && len(keys) > registry.MaxKeysWithoutID {
		return wrongAssertion(clientassertion.ErrNoKeyID)
	}
	for _, key := range keys {
		if assertion.Verify(key) == nil {
			return nil
		}
	}
	// The issuer may have begun to sign with a key that isn't known yet, or it may have replaced a key.
	a.RefreshKeys(realm.Name, issuer.Name)
	switch {
	case !known:
		return fmt.Errorf("%w: %w", errUnknownKey, jws.ErrKey)
	case len(keys) == 0:
		return wrongAssertion(jws.ErrKey)
	}
	return wrongAssertion(jws.ErrSignature)
}

// verifyForeign verifies a token that was signed with a key of a trusted issuer. If the token is
// for a service account, the cluster may also have begun to sign with this key.
//
// Errors: oauth.ErrNoClusterKeys; oauth.ErrInvalidClient, wrapping the reason.
func (a *Authenticator) verifyForeign(ctx context.Context, realm *registry.Realm, issuer *registry.Issuer, assertion *clientassertion.Assertion, now time.Time) (proven, error) {
	if assertion.OfServiceAccount() && a.ClusterKeys != nil {
		if a.ClusterKeys.RuleOut(ctx, issuer.Issuer, assertion.KeyID) != nil {
			return proven{}, oauth.ErrNoClusterKeys
		}
		if issuers, ok := a.signedByCluster(assertion); ok {
			return checkServiceAccount(issuers, realm, assertion, now)
		}
	}
	token := proven{issuer: issuer, assertion: assertion}
	if err := assertion.CheckForeign(issuer.Audience, issuer.RequiredClaims, now); err != nil {
		return token, wrongAssertion(err)
	}
	return token, nil
}

// holder returns the client that holds the subject of the token, or nil.
func (p *proven) holder(realm *registry.Realm) *registry.Client {
	if p.issuer == nil {
		return realm.Holder(clientassertion.IssuerKubernetes, clientassertion.IssuerKubernetes, p.account.Subject())
	}
	return realm.Holder(p.issuer.Name, p.issuer.Issuer, p.assertion.Claims.Subject)
}

// match returns an error unless the client lists the token. It returns a bit mask of all identities
// that match, because each of them counts as used. A client has at most record.MaxIdentities.
//
// Errors: clientassertion.ErrAccount, clientassertion.ErrNotListed.
func (p *proven) match(client *registry.Client) (matched uint64, err error) {
	for i := range client.Identities {
		if p.matches(&client.Identities[i]) {
			matched |= 1 << i
		}
	}
	switch {
	case matched != 0:
		return matched, nil
	case p.issuer == nil:
		return 0, clientassertion.ErrAccount
	}
	return 0, clientassertion.ErrNotListed
}

// matches reports whether the token is one of the identity. An identity of a trusted issuer without a
// subject and without claims matches nothing.
func (p *proven) matches(identity *registry.Identity) bool {
	switch {
	case p.issuer == nil:
		return identity.Account == p.account
	case identity.IssuerName != p.issuer.Name || identity.Issuer != p.issuer.Issuer:
		return false
	case identity.Subject != "":
		return identity.Subject == p.assertion.Claims.Subject
	}
	return len(identity.Claims) > 0 && p.assertion.HasClaims(identity.Claims)
}
