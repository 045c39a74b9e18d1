package apiclient

import (
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// accountPrefix starts the subject of a service account's token.
const accountPrefix = "system:serviceaccount:"

// accountNamed returns the name of the service account with a subject. It is empty if the subject is
// not an account that a client in the namespace can list.
func accountNamed(namespace, subject string) string {
	name, ok := strings.CutPrefix(subject, accountPrefix+namespace+":")
	if !ok || name == "default" || strings.Contains(name, ":") {
		return ""
	}
	return name
}

// listedAccounts returns the names of the service accounts in the spec, sorted. A federated identity
// of the issuer "kubernetes" is another way to list one.
func listedAccounts(c *v1alpha1.ApiClient) []string {
	var names []string
	for _, reference := range c.Spec.ServiceAccounts {
		names = append(names, reference.Name)
	}
	for _, identity := range c.Spec.FederatedIdentities {
		if name := accountNamed(c.Namespace, identity.Subject); identity.Issuer == v1alpha1.IssuerKubernetes && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// listedIssuers returns the names of the issuers whose tokens authenticate the client, sorted.
func listedIssuers(c *v1alpha1.ApiClient) []string {
	var names []string
	if len(c.Spec.ServiceAccounts) > 0 {
		names = append(names, v1alpha1.IssuerKubernetes)
	}
	for _, identity := range c.Spec.FederatedIdentities {
		names = append(names, identity.Issuer)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// trustedIssuer returns the issuer of the Realm with the given name, or nil.
func trustedIssuer(realm *v1alpha1.Realm, name string) *v1alpha1.TrustedIssuer {
	i := slices.IndexFunc(realm.Spec.TrustedIssuers, func(t v1alpha1.TrustedIssuer) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &realm.Spec.TrustedIssuers[i]
}

// identities returns the federated identities for the record. It omits identities of the cluster,
// which are service accounts, and identities of unknown issuers.
func identities(seen *observed) []record.Identity {
	var found []record.Identity
	for _, identity := range seen.client.Spec.FederatedIdentities {
		issuer := trustedIssuer(seen.realm, identity.Issuer)
		if identity.Issuer == v1alpha1.IssuerKubernetes || issuer == nil {
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
func issuersInRealm(seen observed, _ *config.Instance) *condition.Result {
	missing := slices.DeleteFunc(listedIssuers(seen.client), func(name string) bool {
		return name == v1alpha1.IssuerKubernetes || trustedIssuer(seen.realm, name) != nil
	})
	if len(missing) == 0 {
		return nil
	}
	return notReady(v1alpha1.ReasonIssuerNotInRealm, "Realm %q does not define these issuers from spec.federatedIdentities: %s. Remove them or add them to spec.trustedIssuers of the Realm.",
		seen.realm.Name, enumerate(missing))
}

// identitiesSupported accepts only service accounts of the client's namespace as identities of the
// issuer "kubernetes", as spec.serviceAccounts does. Otherwise, a tenant could use the Pods of
// another tenant.
func identitiesSupported(seen observed, _ *config.Instance) *condition.Result {
	for _, identity := range seen.client.Spec.FederatedIdentities {
		if identity.Issuer == v1alpha1.IssuerKubernetes && accountNamed(seen.client.Namespace, identity.Subject) == "" {
			return notReady(v1alpha1.ReasonFederatedIdentityNotSupported, "Subject %q in spec.federatedIdentities is not supported for issuer %q. It must be \"%s%s:\" and the name of a service account in this namespace other than \"default\".",
				identity.Subject, v1alpha1.IssuerKubernetes, accountPrefix, seen.client.Namespace)
		}
	}
	return nil
}
