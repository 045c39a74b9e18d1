package apiclient

import (
	"slices"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// identities returns the identities for the record. It omits service accounts that don't exist, and
// identities of issuers that don't authenticate clients.
func identities(seen *observed) []record.Identity {
	var found []record.Identity
	for _, identity := range seen.client.Spec.Identities {
		if name := identity.ServiceAccount.Name; name != "" {
			if uid, ok := seen.accounts[name]; ok {
				found = append(found, record.Identity{ID: identity.Name, ServiceAccount: &record.ServiceAccount{Namespace: seen.client.Namespace, Name: name, UID: uid}})
			}
			continue
		}
		if issuer := authenticatingIssuer(seen.realm, identity.Issuer); issuer != nil {
			found = append(found, record.Identity{
				ID: identity.Name, IssuerName: issuer.Name, Issuer: string(issuer.Issuer), Subject: identity.Subject, Claims: identity.MatchClaims.Map(),
			})
		}
	}
	return found
}

// issuersInRealm accepts only identities of issuers whose tokens authenticate clients of the Realm.
func (seen *request) issuersInRealm() *condition.Result {
	missing := slices.DeleteFunc(seen.client.Spec.Issuers(), func(name string) bool {
		return name == v1beta1.IssuerKubernetes || authenticatingIssuer(seen.realm, name) != nil
	})
	if len(missing) == 0 {
		return nil
	}
	return notReady(v1beta1.ReasonIssuerNotInRealm, "Realm %q does not define these issuers from spec.identities: %s. Remove them, or add them to spec.trustedIssuers of the Realm with ClientAuthentication in uses.",
		seen.realm.Name, condition.Names(missing))
}

// missingAccounts returns the names of listed service accounts that do not exist, sorted.
func missingAccounts(seen *observed) []string {
	missing := slices.DeleteFunc(seen.client.Spec.ServiceAccounts(), func(name string) bool {
		_, ok := seen.accounts[name]
		return ok
	})
	slices.Sort(missing)
	return missing
}

// serviceAccountExists requires at least one of the listed accounts to exist if the client has no
// other way to authenticate.
func (seen *observed) serviceAccountExists() *condition.Result {
	spec := &seen.client.Spec
	missing := missingAccounts(seen)
	if len(missing) == 0 || len(spec.PublicKeys) > 0 || spec.Secret != nil || len(identities(seen)) > 0 {
		return nil
	}
	return notReady(v1beta1.ReasonServiceAccountNotFound, "None of the service accounts in spec.identities exists: %s. Create one in this namespace; the client is then reconciled automatically.", condition.Names(missing))
}
