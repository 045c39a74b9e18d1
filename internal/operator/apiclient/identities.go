package apiclient

import (
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// identities returns the federated identities for the record. It omits identities of the cluster,
// which are service accounts, and identities of unknown issuers.
func identities(seen *observed) []record.Identity {
	var found []record.Identity
	for _, identity := range seen.client.Spec.FederatedIdentities {
		issuer := trustedIssuer(seen.realm, identity.Issuer)
		if identity.Issuer == v1beta1.IssuerKubernetes || issuer == nil {
			continue
		}
		resolved := record.Identity{ID: identity.ID(), Issuer: string(issuer.Issuer), IssuerName: issuer.Name, Subject: identity.Subject}
		if len(identity.Claims) > 0 {
			resolved.Claims = make(map[string]string, len(identity.Claims))
		}
		for name, value := range identity.Claims {
			resolved.Claims[name] = string(value)
		}
		found = append(found, resolved)
	}
	return found
}

// issuersInRealm accepts only federated identities of issuers that the Realm trusts.
func (seen *request) issuersInRealm() *condition.Result {
	missing := slices.DeleteFunc(listedIssuers(seen.client), func(name string) bool {
		return name == v1beta1.IssuerKubernetes || trustedIssuer(seen.realm, name) != nil
	})
	if len(missing) == 0 {
		return nil
	}
	return notReady(v1beta1.ReasonIssuerNotInRealm, "Realm %q does not define these issuers from spec.federatedIdentities: %s. Remove them or add them to spec.trustedIssuers of the Realm.",
		seen.realm.Name, enumerate(missing))
}

// identitiesSupported accepts only service accounts of the client's namespace as identities of the
// issuer "kubernetes", as spec.serviceAccounts does. Otherwise, a tenant could use the Pods of
// another tenant.
func (seen *request) identitiesSupported() *condition.Result {
	for _, identity := range seen.client.Spec.FederatedIdentities {
		if identity.Issuer == v1beta1.IssuerKubernetes && accountNamed(seen.client.Namespace, identity.Subject) == "" {
			return notReady(v1beta1.ReasonFederatedIdentityNotSupported, "Subject %q in spec.federatedIdentities is not supported for issuer %q. It must be \"%s%s:\" and the name of a service account in this namespace other than \"default\".",
				identity.Subject, v1beta1.IssuerKubernetes, accountPrefix, seen.client.Namespace)
		}
	}
	return nil
}

// serviceAccounts returns the existing accounts for the record, sorted by name.
func serviceAccounts(seen *observed) []record.ServiceAccount {
	var accounts []record.ServiceAccount
	for name, uid := range seen.accounts {
		accounts = append(accounts, record.ServiceAccount{Namespace: seen.client.Namespace, Name: name, UID: uid})
	}
	slices.SortFunc(accounts, func(a, b record.ServiceAccount) int { return strings.Compare(a.Name, b.Name) })
	return accounts
}

// missingAccounts returns the names of listed accounts that do not exist, sorted.
func missingAccounts(seen *observed) []string {
	return slices.DeleteFunc(listedAccounts(seen.client), func(name string) bool {
		_, ok := seen.accounts[name]
		return ok
	})
}

// serviceAccountExists requires at least one of the listed accounts to exist if the client has no
// other way to authenticate.
func (seen *observed) serviceAccountExists() *condition.Result {
	spec := &seen.client.Spec
	missing := missingAccounts(seen)
	if len(missing) == 0 || len(missing) < len(listedAccounts(seen.client)) ||
		len(spec.PublicKeys) > 0 || spec.Secret != nil || len(identities(seen)) > 0 {
		return nil
	}
	return notReady(v1beta1.ReasonServiceAccountNotFound, "None of the service accounts in spec.serviceAccounts and spec.federatedIdentities exists: %s. Create one in this namespace; the client is then reconciled automatically.", enumerate(missing))
}
