package apiclient

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
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
	namespaceAllowed,
	clientIDFree,
	scopesInRealm,
	audiencesInRealm,
	lifetimeWithinRealm,
	secretNameFree,
	secretProvided,
	hashesSupported,
	publicKeysSupported,
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
	message := "The spec is valid and the Realm allows the client."
	if missing := missingAccounts(seen); len(missing) > 0 {
		message += " These service accounts do not exist yet: " + enumerate(missing) + "."
	}
	return condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, Message: message}
}

func realmExists(seen observed, _ *config.Instance) *condition.Result {
	if seen.realm != nil {
		return nil
	}
	return notReady(v1alpha1.ReasonRealmNotFound, "Realm %q not found. The client is reconciled automatically after the Realm is created.", seen.client.Spec.RealmRef.Name)
}

func namespaceAllowed(seen observed, _ *config.Instance) *condition.Result {
	namespace := seen.client.Namespace
	if allows(seen.realm, namespace, seen.namespaces[namespace]) {
		return nil
	}
	return notReady(v1alpha1.ReasonNamespaceNotAllowed, "Realm %q does not allow clients in namespace %q. Allow the namespace in spec.allowedNamespaces of the Realm, or create the client in an allowed namespace.",
		seen.realm.Name, namespace)
}

// clientIDFree accepts only the oldest ApiClient with a client ID, ignoring ApiClients that the
// Realm does not allow.
func clientIDFree(seen observed, _ *config.Instance) *condition.Result {
	oldest := seen.client
	for i := range seen.sameClientID {
		other := &seen.sameClientID[i]
		if other.DeletionTimestamp.IsZero() && allows(seen.realm, other.Namespace, seen.namespaces[other.Namespace]) && older(other, oldest) {
			oldest = other
		}
	}
	if oldest.UID == seen.client.UID {
		return nil
	}
	return notReady(v1alpha1.ReasonClientIDConflict, "Client ID %q in Realm %q is used by the older ApiClient %s/%s. Create a client with a different spec.clientId, or delete the older ApiClient; this client is then reconciled automatically.",
		seen.client.EffectiveClientID(), seen.realm.Name, oldest.Namespace, oldest.Name)
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
	defined := seen.realm.Spec.Audiences
	if len(defined) == 0 {
		defined = []string{instance.Issuer(seen.realm.Name)}
	}
	missing := difference(seen.client.Spec.Audiences, defined)
	if len(missing) == 0 {
		return nil
	}
	return notReady(v1alpha1.ReasonAudienceNotInRealm, "Realm %q does not define these audiences from spec.audiences: %s. Remove them or add them to the Realm.",
		seen.realm.Name, enumerate(missing))
}

func lifetimeWithinRealm(seen observed, instance *config.Instance) *condition.Result {
	lifetime, maximum := seen.client.Spec.TokenLifetime, instance.TokenLifetime(seen.realm.Spec.TokenLifetime)
	if lifetime == nil || lifetime.Duration <= maximum {
		return nil
	}
	return notReady(v1alpha1.ReasonLifetimeExceedsRealm, "spec.tokenLifetime %s exceeds %s, the token lifetime of Realm %q. Shorten or remove it.",
		lifetime.Duration, maximum, seen.realm.Name)
}

func secretNameFree(seen observed, _ *config.Instance) *condition.Result {
	if seen.credentials == nil || !seen.client.GeneratesSecret() || isOwned(seen.credentials, seen.client) && seen.credentials.Type == corev1.SecretTypeOpaque {
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

// allows reports whether the Realm allows clients in a namespace with the given labels.
func allows(realm *v1alpha1.Realm, namespace string, namespaceLabels map[string]string) bool {
	switch allowed := realm.Spec.AllowedNamespaces; allowed.From {
	case v1alpha1.NamespacesFromAll:
		return true
	case v1alpha1.NamespacesFromNames:
		return slices.Contains(allowed.Names, namespace)
	case v1alpha1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(allowed.Selector.LabelSelector())
		return err == nil && selector.Matches(labels.Set(namespaceLabels))
	}
	return false
}

// older orders ApiClients by creation time, then by namespace and name.
func older(a, b *v1alpha1.ApiClient) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
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
