package apiclient

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

func (seen *request) realmExists() *condition.Result {
	if seen.realm != nil {
		return nil
	}
	return notReady(v1beta1.ReasonRealmNotFound, "Realm %q in spec.realmRef not found. Create it; this client is then reconciled automatically. If the name is misspelled, create another ApiClient, because spec.realmRef is immutable.", seen.client.Spec.RealmRef.Name)
}

// clientIDFree accepts only the ApiClient that holds the client ID.
func (seen *observed) clientIDFree() *condition.Result {
	if seen.holder.Name == "" {
		return nil
	}
	return notReady(v1beta1.ReasonClientIDConflict, "ApiClient %s holds client ID %q in Realm %q. Create a client with a different client ID, or delete the other ApiClient, or release it with \"kubectl realmkeeper release\"; this client is then reconciled automatically.",
		seen.holder, seen.client.EffectiveClientID(), seen.realm.Name)
}

func (seen *request) scopesInRealm() *condition.Result {
	spec := &seen.client.Spec
	for _, of := range []struct {
		field  string
		scopes []string
	}{{"spec.scopes", spec.Scopes}, {"spec.delegatedScopes", spec.DelegatedScopes}} {
		if missing := difference(of.scopes, seen.realm.Spec.Scopes); len(missing) > 0 {
			return notReady(v1beta1.ReasonScopeNotInRealm, "Realm %q does not define these scopes from %s: %s. Remove them or add them to the Realm.",
				seen.realm.Name, of.field, condition.Names(missing))
		}
	}
	return nil
}

func (seen *request) audiencesInRealm() *condition.Result {
	spec, defined := &seen.client.Spec, seen.realm.Spec.EffectiveAudiences(seen.instance.Issuer(seen.realm.Name))
	for _, of := range []struct {
		field     string
		audiences []string
	}{{"spec.audiences", spec.Audiences}, {"spec.introspection.audiences", spec.Introspection.Audiences}} {
		if missing := difference(of.audiences, defined); len(missing) > 0 {
			return notReady(v1beta1.ReasonAudienceNotInRealm, "Realm %q does not define these audiences from %s: %s. Remove them or add them to the Realm.",
				seen.realm.Name, of.field, condition.Names(missing))
		}
	}
	return nil
}

func (seen *request) lifetimeWithinRealm() *condition.Result {
	lifetime, maximum := seen.client.Spec.TokenLifetime, seen.instance.TokenLifetime((*metav1.Duration)(seen.realm.Spec.TokenLifetime))
	if lifetime == nil || lifetime.Duration <= maximum {
		return nil
	}
	return notReady(v1beta1.ReasonLifetimeExceedsRealm, "spec.tokenLifetime %s exceeds %s, the token lifetime of Realm %q. Shorten or remove it.",
		lifetime.Duration, maximum, seen.realm.Name)
}

// secretsManaged rejects clients whose secret is in a Secret if the operator has no permissions for
// Secrets.
func (seen *request) secretsManaged() *condition.Result {
	source := secretSource(seen.client)
	inSecret := source.Generated != nil || source.Provided != nil ||
		slices.ContainsFunc(source.Hashed, func(h v1beta1.HashedSecret) bool { return h.HashSecretRef.Name != "" })
	if seen.instance.ManagesCredentialsSecrets() || !inSecret {
		return nil
	}
	return notReady(v1beta1.ReasonCredentialsSecretsDisabled, "This installation disables credentialsSecrets, so the operator has no permissions for Secrets. Replace spec.secret.generated, spec.secret.provided, or hashSecretRef with a hash in spec.secret.hashed, spec.publicKeys, or spec.identities.")
}

// helmTestSecret is the credentials Secret of "helm test", which runs in the system namespace.
const helmTestSecret = "realmkeeper-helm-test"

// secretOutsideInstallation rejects clients whose credentials Secret would be among the Secrets of
// Realmkeeper itself. In their namespaces, users who can only manage ApiClients could otherwise choose
// the names and contents of Secrets that have a meaning there.
func (seen *request) secretOutsideInstallation() *condition.Result {
	c := seen.client
	if !c.GeneratesSecret() || c.Namespace != seen.instance.SystemNamespace && c.Namespace != seen.instance.RecordsNamespace {
		return nil
	}
	if c.Namespace == seen.instance.SystemNamespace && c.EffectiveSecretName() == helmTestSecret {
		return nil
	}
	return notReady(v1beta1.ReasonCredentialsSecretsDisabled, "Namespace %q contains the Secrets of Realmkeeper itself, so the operator creates no credentials Secrets in it. Create the client in another namespace, or replace spec.secret.generated with spec.secret.hashed, spec.publicKeys, or spec.identities.",
		c.Namespace)
}

func (seen *observed) secretNameFree() *condition.Result {
	if seen.credentials == nil || !seen.client.GeneratesSecret() || isAdoptable(seen.credentials) ||
		isOwned(seen.credentials, seen.client) && seen.credentials.Type == corev1.SecretTypeOpaque {
		return nil
	}
	return notReady(v1beta1.ReasonSecretConflict, "Secret %q exists and is not owned by this ApiClient, so the operator does not change it. Delete the Secret, or create a client with a different spec.secret.generated.secretName. If you created the Secret for its metadata, remove its data, and add the label %s: %s. The operator rechecks every minute.",
		seen.credentials.Name, v1beta1.ClientSecretLabel, v1beta1.ClientSecretGenerated)
}
