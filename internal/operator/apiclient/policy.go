package apiclient

import (
	"errors"
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

// policy is one rule that needs another object. It returns the verdict of an ApiClient
// that breaks it, nil of one that doesn't.
type policy func(seen observed, instance *config.Instance) *condition.Result

// policies in the order in which they are told: what must be mended first comes first.
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

// accepted returns the Accepted condition's verdict: that of the first policy broken.
func accepted(seen observed, instance *config.Instance) condition.Result {
	for _, broken := range policies {
		if v := broken(seen, instance); v != nil {
			return *v
		}
	}
	message := "The spec is valid and the realm allows it."
	if missing := missingAccounts(seen); len(missing) > 0 {
		message += " These service accounts don't exist and are waited for: " + enumerate(missing) + "."
	}
	return condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, Message: message}
}

func realmExists(seen observed, _ *config.Instance) *condition.Result {
	if seen.realm != nil {
		return nil
	}
	return fault(v1alpha1.ReasonRealmNotFound, "Realm %q doesn't exist. Create it; this client then goes on by itself.", seen.client.Spec.RealmRef.Name)
}

func namespaceAllowed(seen observed, _ *config.Instance) *condition.Result {
	namespace := seen.client.Namespace
	if allows(seen.realm, namespace, seen.namespaces[namespace]) {
		return nil
	}
	return fault(v1alpha1.ReasonNamespaceNotAllowed, "Realm %q doesn't allow clients in namespace %q. Have its spec.allowedNamespaces extended, or create the client elsewhere.",
		seen.realm.Name, namespace)
}

// clientIDFree lets the oldest of those that the realm allows have the client id.
func clientIDFree(seen observed, _ *config.Instance) *condition.Result {
	winner := seen.client
	for i := range seen.claimants {
		rival := &seen.claimants[i]
		if rival.DeletionTimestamp.IsZero() && allows(seen.realm, rival.Namespace, seen.namespaces[rival.Namespace]) && older(rival, winner) {
			winner = rival
		}
	}
	if winner.UID == seen.client.UID {
		return nil
	}
	return fault(v1alpha1.ReasonClientIDConflict, "Client id %q of Realm %q belongs to the older ApiClient %s/%s. Choose another client id; this one becomes yours when that ApiClient is deleted.",
		seen.client.EffectiveClientID(), seen.realm.Name, winner.Namespace, winner.Name)
}

func scopesInRealm(seen observed, _ *config.Instance) *condition.Result {
	missing := without(seen.client.Spec.Scopes, seen.realm.Spec.Scopes)
	if len(missing) == 0 {
		return nil
	}
	return fault(v1alpha1.ReasonScopeNotInRealm, "Realm %q doesn't have these scopes of spec.scopes: %s. Take them out, or have them added to the realm.",
		seen.realm.Name, enumerate(missing))
}

func audiencesInRealm(seen observed, instance *config.Instance) *condition.Result {
	offered := seen.realm.Spec.Audiences
	if len(offered) == 0 {
		offered = []string{instance.Issuer(seen.realm.Name)}
	}
	missing := without(seen.client.Spec.Audiences, offered)
	if len(missing) == 0 {
		return nil
	}
	return fault(v1alpha1.ReasonAudienceNotInRealm, "Realm %q doesn't have these audiences of spec.audiences: %s. Take them out, or have them added to the realm.",
		seen.realm.Name, enumerate(missing))
}

func lifetimeWithinRealm(seen observed, instance *config.Instance) *condition.Result {
	wanted, longest := seen.client.Spec.TokenLifetime, instance.TokenLifetime(seen.realm.Spec.TokenLifetime)
	if wanted == nil || wanted.Duration <= longest {
		return nil
	}
	return fault(v1alpha1.ReasonLifetimeExceedsRealm, "spec.tokenLifetime %s is longer than %s, the lifetime of Realm %q. Shorten it or leave it out.",
		wanted.Duration, longest, seen.realm.Name)
}

func secretNameFree(seen observed, _ *config.Instance) *condition.Result {
	if seen.consumer == nil || !seen.client.GeneratesSecret() || ours(seen.consumer, seen.client) && seen.consumer.Type == corev1.SecretTypeOpaque {
		return nil
	}
	return fault(v1alpha1.ReasonSecretConflict, "Secret %q exists and isn't this client's; it stays untouched. Delete or rename it (it is looked at every minute), or create the client with another spec.secret.generated.secretName.",
		seen.consumer.Name)
}

func secretProvided(seen observed, _ *config.Instance) *condition.Result {
	provided := secretSource(seen.client).Provided
	if provided == nil {
		return nil
	}
	name, key := provided.SecretRef.Name, provided.SecretRef.EffectiveKey()
	const label = v1alpha1.ClientSecretLabel + ": \"" + v1alpha1.ClientSecretProvided + "\""
	if seen.provided == nil {
		return fault(v1alpha1.ReasonSecretNotFound, "Secret %q doesn't exist. Create it with the client secret under the key %q and the label %s.", name, key, label)
	}
	if !readable(seen.provided) {
		return fault(v1alpha1.ReasonSecretNotLabelled, "Secret %q may not be read. Give it the label %s (it is looked at every minute).", name, label)
	}
	value, ok := seen.provided.Data[key]
	switch err := clientsecret.CheckChosen(string(value)); {
	case !ok:
		return fault(v1alpha1.ReasonSecretNotFound, "Secret %q has no key %q. Add it, with the client secret.", name, key)
	case errors.Is(err, clientsecret.ErrNotUsable):
		return fault(v1alpha1.ReasonSecretNotUsable, "No client can send what stands under the key %q of Secret %q. Put a secret there of at most %d characters in UTF-8, without control characters such as a line break at its end.", key, name, clientsecret.LongestChosen)
	case err != nil:
		return fault(v1alpha1.ReasonSecretTooShort, "The secret under the key %q of Secret %q has fewer than %d characters. Put a longer one there.", key, name, clientsecret.ShortestChosen)
	}
	return nil
}

func hashesSupported(seen observed, _ *config.Instance) *condition.Result {
	for _, h := range secretSource(seen.client).Hashed {
		if _, err := clientsecret.ParseVerifier(h.Hash); err != nil {
			return fault(v1alpha1.ReasonHashNotSupported, "The hash %q of spec.secret.hashed can't be used: %v.", h.ID, err)
		}
	}
	return nil
}

// allows reports whether the realm allows clients in a namespace with those labels.
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

// older orders claimants by creation, then by namespace and name.
func older(a, b *v1alpha1.ApiClient) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}

// without returns what is in wanted and not in offered, sorted.
func without(wanted, offered []string) []string {
	missing := slices.DeleteFunc(slices.Clone(wanted), func(s string) bool { return slices.Contains(offered, s) })
	slices.Sort(missing)
	return missing
}

// shown is how many names a message lists: the API server bounds messages.
const shown = 5

// enumerate lists the first names, and says how many more there are.
func enumerate(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

func fault(reason v1alpha1.ConditionReason, format string, args ...any) *condition.Result {
	v := condition.NotReady(reason, fmt.Sprintf(format, args...))
	return &v
}
