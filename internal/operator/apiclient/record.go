package apiclient

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
)

func newRecord(seen *observed, granted coverage, plan secrets.Plan) *record.Client {
	c := seen.client
	body := &record.Client{
		UID:       c.UID,
		Namespace: c.Namespace,
		Name:      c.Name,
		RealmUID:  seen.realm.UID,
		RealmName: seen.realm.Name,
		ClientID:  c.EffectiveClientID(),
		Identity:  identityInTokens(seen),
		Disabled:  c.Spec.Suspend,
		Scopes:    slices.Sorted(slices.Values(c.Spec.Scopes)),
		Audiences: granted.Audiences,
		Secrets:   plan.Secrets,
		Restored:  seen.restoredWith(plan.Restored),

		TokensValidAfter: tokensValidAfter(seen),

		Restrictions: seen.recorded.Restrictions.Unknown(),
		SecretSerial: plan.Serial,

		DelegatedScopes:    slices.Sorted(slices.Values(c.Spec.DelegatedScopes)),
		NamespaceSelectors: namespaceSelectors(&seen.request),

		IntrospectionAudiences: slices.Sorted(slices.Values(c.Spec.Introspection.Audiences)),
		TokensPerSecond:        c.Spec.Limits.TokensPerSecondPerServer,
		PublicKeys:             publicKeys(c),
		Identities:             identities(seen),
		Claims:                 record.MergeClaims(seen.realm.Spec.Claims, c.Spec.Claims),
		DPoP:                   granted.DPoP || c.Spec.SenderConstraint == v1beta1.SenderConstraintDPoP,
	}
	if c.Spec.ExpirationTime != nil {
		body.ExpiresAt = c.Spec.ExpirationTime.UTC()
	}
	if c.Spec.TokenLifetime != nil {
		body.TokenLifetimeSeconds = int64(c.Spec.TokenLifetime.Duration / time.Second)
	}
	return body
}

// basis returns the versions of the objects that a decision is based on. The Realm must exist.
func basis(seen *observed) record.Basis {
	b := record.Basis{Generation: seen.client.Generation, RealmGeneration: seen.realm.Generation}
	if namespace := seen.namespace; namespace != nil && selectsLabels(seen.realm) {
		b.Namespace = record.NamespaceBasis{UID: namespace.UID, Version: namespace.ResourceVersion, Labels: record.Digest(namespace.Labels)}
	}
	return b
}

// selectsLabels reports whether any grant or exchange of the Realm selects namespaces by their labels.
func selectsLabels(realm *v1beta1.Realm) bool {
	return len(exchangeSelectors(realm)) > 0 || slices.ContainsFunc(realm.Spec.Grants, func(g v1beta1.Grant) bool { return g.Namespaces.Selector != nil })
}

// exchangeSelectors returns the sets of namespaces in the exchanges of the Realm that are selected by labels.
func exchangeSelectors(realm *v1beta1.Realm) []*v1beta1.GrantedNamespaces {
	var selectors []*v1beta1.GrantedNamespaces
	for i := range realm.Spec.Exchanges {
		e := &realm.Spec.Exchanges[i]
		if e.Actors.Namespaces.Selector != nil {
			selectors = append(selectors, e.Actors.Namespaces.Granted())
		}
		if clients := e.Subjects.Clients; clients != nil && clients.Namespaces.Selector != nil {
			selectors = append(selectors, clients.Namespaces.Granted())
		}
	}
	return selectors
}

// namespaceSelectors returns the digests of the selectors in exchanges of the Realm that include the
// client's namespace, sorted.
func namespaceSelectors(seen *request) []string {
	var digests []string
	for _, selector := range exchangeSelectors(seen.realm) {
		if selector.Includes(seen.client.Namespace, seen.namespaceLabels()) {
			digests = append(digests, record.DigestOfSelector(selector.Selector))
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// errInconclusive means that what was read may be older than the client's record or credentials Secret. If
// all of it was read from the API server, it has changed between the reads, and the retry decides.
var errInconclusive = errors.New("the objects that were read may be out of date")

// lagging returns why what was read is older than what the client's record implements, or, according to caches, the
// record older than the status; empty if it isn't. A decision that is based on that could undo a newer one.
func (seen *observed) lagging() string {
	if seen.holder == client.ObjectKeyFromObject(seen.client) && !seen.live {
		return "another ApiClient with this name holds the client ID"
	}
	if seen.recordSecret == nil || seen.realm == nil {
		return ""
	}
	b := basis(seen)
	if older := b.Older(&seen.recorded.Basis); len(older) > 0 {
		return fmt.Sprintf("record %s implements newer versions of %v", seen.recordSecret.Name, older)
	}
	if seen.recordMayBeOld() {
		return fmt.Sprintf("the status lists a secret that record %s doesn't contain", seen.recordSecret.Name)
	}
	return ""
}

// setBasis completes a desired record with its basis. keepsSecret reports whether a change of the secrets
// leaves workloads with a valid one, so that they don't depend on which token servers have loaded it.
func setBasis(seen *observed, desired *record.Client, keepsSecret bool) {
	full, before := basis(seen), seen.recorded
	if seen.recordSecret == nil {
		desired.Basis = full
		return
	}
	version := cmp.Or(before.Basis.ContentVersion, seen.recordSecret.ResourceVersion)
	desired.Basis = before.Basis
	switch {
	case record.Equal(before, *desired):
		if full.Generation == before.Basis.Generation {
			return
		}
		desired.Basis.Generation, desired.Basis.ContentVersion = full.Generation, version
	case keepsSecret && differInSecretsOnly(before, *desired):
		desired.Basis, desired.Basis.ContentVersion = full, version
	default:
		desired.Basis = full
	}
}

// differInSecretsOnly reports whether two records with the same basis are equal apart from their secrets, and
// from their status index, on which workloads don't depend.
func differInSecretsOnly(a, b record.Client) bool {
	a.Secrets, b.Secrets, a.SecretSerial, b.SecretSerial = nil, nil, 0, 0
	a.StatusIndex, b.StatusIndex, a.IndexSerial, b.IndexSerial = nil, nil, 0, 0
	if a.Restored != nil && b.Restored != nil && a.Restored.At.Equal(b.Restored.At) {
		a.Restored, b.Restored = nil, nil // restored secrets only end
	}
	return record.Equal(a, b)
}
