package apiclient

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/claims"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// policy is a rule that the schema cannot check, usually because it depends on another object. It
// returns nil if the ApiClient complies, and otherwise the result for the Accepted condition.
type policy func(seen observed, instance *config.Instance) *condition.Result

// policies are listed in the order in which users must fix violations, because only the first
// violation is reported.
var policies = []policy{
	realmExists,
	clientIDNotReleased, // before the grants, so that a client without a grant can be released
	namespaceAllowed,
	scopesInRealm,
	audiencesInRealm,
	issuersInRealm,
	claimsInRealm,
	claimsWithinSize,
	granted,
	lifetimeWithinRealm,
	clientIDFree,
	secretsManaged,
	secretOutsideInstallation,
	secretNameFree,
	metadataAllowed,
	secretProvided,
	hashesSupported,
	publicKeysSupported,
	identitiesSupported,
	serviceAccountExists,
}

// accepted returns the result for the Accepted condition. It is the result of the first failing
// policy, if any.
func accepted(seen observed, instance *config.Instance) condition.Result {
	for _, check := range policies {
		if result := check(seen, instance); result != nil {
			return *result
		}
	}
	message := fmt.Sprintf("The spec is valid, and grant %q of Realm %q allows the client.", covered(&seen, instance).grant.Name, seen.realm.Name)
	if missing := missingAccounts(seen); len(missing) > 0 {
		message += " These service accounts do not exist yet: " + enumerate(missing) + "."
	}
	message += claims.Reserved(seen.realm.Spec.Claims, seen.client.Spec.Claims) + subjectNote(&seen)
	return condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, Message: message}
}

func realmExists(seen observed, _ *config.Instance) *condition.Result {
	if seen.realm != nil {
		return nil
	}
	return notReady(v1alpha1.ReasonRealmNotFound, "Realm %q not found. The client is reconciled automatically after the Realm is created.", seen.client.Spec.RealmRef.Name)
}

func namespaceAllowed(seen observed, instance *config.Instance) *condition.Result {
	if covered(&seen, instance).grant != nil {
		return nil
	}
	return notReady(v1alpha1.ReasonNamespaceNotAllowed, "No grant of Realm %q includes namespace %q. Add a grant for the namespace to spec.grants of the Realm, or create the client in a namespace that has one.",
		seen.realm.Name, seen.client.Namespace)
}

// granted accepts only clients that a single grant covers.
func granted(seen observed, instance *config.Instance) *condition.Result {
	c := covered(&seen, instance)
	if len(c.lacks) == 0 {
		return nil
	}
	return notReady(v1alpha1.ReasonNotGranted, "No single grant of Realm %q covers this client, and grants are never combined. The nearest is grant %q, which lacks %s. Change the client so that one grant covers it, or extend that grant in spec.grants of the Realm.",
		seen.realm.Name, c.grant.Name, enumerate(c.lacks))
}

func clientIDNotReleased(seen observed, _ *config.Instance) *condition.Result {
	if !released(seen.realm, seen.client) {
		return nil
	}
	return notReady(v1alpha1.ReasonClientIDReleased, "Realm %q lists this client in spec.releasedClients, so it cannot hold client ID %q. Remove it from the list, or delete the client.",
		seen.realm.Name, seen.client.EffectiveClientID())
}

// released reports whether the Realm makes the client give up its client ID.
func released(realm *v1alpha1.Realm, c *v1alpha1.ApiClient) bool {
	return slices.Contains(realm.Spec.ReleasedClients, v1alpha1.ApiClientReference{Namespace: c.Namespace, Name: c.Name})
}

// clientIDFree accepts only the ApiClient that holds the client ID.
func clientIDFree(seen observed, _ *config.Instance) *condition.Result {
	if seen.holder.Name == "" {
		return nil
	}
	return notReady(v1alpha1.ReasonClientIDConflict, "ApiClient %s holds client ID %q in Realm %q. Create a client with a different client ID, or delete the other ApiClient, or add it to spec.releasedClients of the Realm; this client is then reconciled automatically.",
		seen.holder, seen.client.EffectiveClientID(), seen.realm.Name)
}

func scopesInRealm(seen observed, _ *config.Instance) *condition.Result {
	missing := difference(seen.client.Spec.Scopes, seen.realm.Spec.Scopes)
	if len(missing) == 0 {
		return nil
	}
	return notReady(v1alpha1.ReasonScopeNotInRealm, "Realm %q does not define these scopes from spec.scopes: %s. Remove them or add them to the Realm.",
		seen.realm.Name, enumerate(missing))
}

func audiencesInRealm(seen observed, instance *config.Instance) *condition.Result {
	spec, defined := &seen.client.Spec, realmAudiences(seen.realm, instance)
	for _, of := range []struct {
		field     string
		audiences []string
	}{{"spec.audiences", spec.Audiences}, {"spec.introspection.audiences", spec.Introspection.Audiences}} {
		if missing := difference(of.audiences, defined); len(missing) > 0 {
			return notReady(v1alpha1.ReasonAudienceNotInRealm, "Realm %q does not define these audiences from %s: %s. Remove them or add them to the Realm.",
				seen.realm.Name, of.field, enumerate(missing))
		}
	}
	return nil
}

func lifetimeWithinRealm(seen observed, instance *config.Instance) *condition.Result {
	lifetime, maximum := seen.client.Spec.TokenLifetime, instance.TokenLifetime((*metav1.Duration)(seen.realm.Spec.TokenLifetime))
	if lifetime == nil || lifetime.Duration <= maximum {
		return nil
	}
	return notReady(v1alpha1.ReasonLifetimeExceedsRealm, "spec.tokenLifetime %s exceeds %s, the token lifetime of Realm %q. Shorten or remove it.",
		lifetime.Duration, maximum, seen.realm.Name)
}

// secretsManaged rejects clients whose secret is in a Secret if the operator has no permissions for
// Secrets.
func secretsManaged(seen observed, instance *config.Instance) *condition.Result {
	source := secretSource(seen.client)
	if instance.ManagesCredentialsSecrets() || source.Generated == nil && source.Provided == nil {
		return nil
	}
	return notReady(v1alpha1.ReasonCredentialsSecretsDisabled, "This installation disables credentialsSecrets, so the operator has no permissions for Secrets. Replace spec.secret.generated or spec.secret.provided with spec.secret.hashed, spec.publicKeys, spec.serviceAccounts, or spec.federatedIdentities.")
}

// helmTestSecret is the credentials Secret of "helm test", which runs in the system namespace.
const helmTestSecret = "realmkeeper-helm-test"

// secretOutsideInstallation rejects clients whose credentials Secret would be among the Secrets of
// Realmkeeper itself. In their namespaces, users who can only manage ApiClients could otherwise choose
// the names and contents of Secrets that have a meaning there.
func secretOutsideInstallation(seen observed, instance *config.Instance) *condition.Result {
	c := seen.client
	if !c.GeneratesSecret() || c.Namespace != instance.SystemNamespace && c.Namespace != instance.RecordsNamespace {
		return nil
	}
	if c.Namespace == instance.SystemNamespace && c.EffectiveSecretName() == helmTestSecret {
		return nil
	}
	return notReady(v1alpha1.ReasonCredentialsSecretsDisabled, "Namespace %q contains the Secrets of Realmkeeper itself, so the operator creates no credentials Secrets in it. Create the client in another namespace, or replace spec.secret.generated with spec.secret.hashed, spec.publicKeys, spec.serviceAccounts, or spec.federatedIdentities.",
		c.Namespace)
}

func secretNameFree(seen observed, _ *config.Instance) *condition.Result {
	if seen.credentials == nil || !seen.client.GeneratesSecret() ||
		isOwned(seen.credentials, seen.client) && seen.credentials.Type == corev1.SecretTypeOpaque {
		return nil
	}
	return notReady(v1alpha1.ReasonSecretConflict, "Secret %q exists and is not owned by this ApiClient, so the operator does not change it. Delete the Secret, or create a client with a different spec.secret.generated.secretName. The operator rechecks every minute.",
		seen.credentials.Name)
}

func hashesSupported(seen observed, _ *config.Instance) *condition.Result {
	for _, h := range secretSource(seen.client).Hashed {
		if _, err := clientsecret.ParseVerifier(h.Hash); err != nil {
			return notReady(v1alpha1.ReasonHashNotSupported, "The hash %q in spec.secret.hashed cannot be used: %v. Replace it, for example with the output of \"kubectl realmkeeper hash\".", h.ID, err)
		}
	}
	return nil
}

// difference returns the strings in a that are not in b, sorted.
func difference(a, b []string) []string {
	missing := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	slices.Sort(missing)
	return missing
}

// maxListed is the maximum number of names in a message. The API server limits the length of
// messages.
const maxListed = 5

// enumerate joins up to maxListed names and appends the number of names that it omits.
func enumerate(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}

func notReady(reason v1alpha1.ConditionReason, format string, args ...any) *condition.Result {
	result := condition.NotReady(reason, fmt.Sprintf(format, args...))
	return &result
}
