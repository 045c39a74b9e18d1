package apiclient

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Cache indexes for ApiClients.
const (
	byRealm    = "realm"    // name of the Realm
	byClientID = "clientID" // name of the Realm and client ID, if it is not the default
	byProvided = "provided" // names of the Secrets with a provided secret or hash
	byAccount  = "account"  // names of the service accounts
	bySubject  = "subject"  // name of the Realm and exact subjects
)

// byOwner indexes credentials Secrets by the UID of the ApiClient that owns them, except those with
// the name of the ApiClient. An index with one entry for each client would need as much memory as
// the Secrets.
const byOwner = "owner"

func indexFields(ctx context.Context, indexer client.FieldIndexer) error {
	for field, keys := range map[string]func(*v1beta1.ApiClient) []string{
		byRealm: func(c *v1beta1.ApiClient) []string { return []string{c.Spec.RealmRef.Name} },
		byClientID: func(c *v1beta1.ApiClient) []string {
			if c.Spec.ClientID == "" {
				return nil
			}
			return []string{clientIDKey(c.Spec.RealmRef.Name, c.Spec.ClientID)}
		},
		byProvided: providedNames,
		byAccount:  func(c *v1beta1.ApiClient) []string { return c.Spec.ServiceAccounts() },
		bySubject:  subjectKeys,
	} {
		err := indexer.IndexField(ctx, &v1beta1.ApiClient{}, field, func(obj client.Object) []string {
			if c, ok := obj.(*v1beta1.ApiClient); ok {
				return keys(c)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// OfRealm returns the ApiClients in the cache that refer to a Realm. The caller must not change them.
func OfRealm(ctx context.Context, cache client.Reader, realm string) ([]v1beta1.ApiClient, error) {
	clients := &v1beta1.ApiClientList{}
	if err := cache.List(ctx, clients, client.MatchingFields{byRealm: realm}); err != nil {
		return nil, fmt.Errorf("listing the ApiClients of Realm %q: %w", realm, err)
	}
	return clients.Items, nil
}

// indexSecrets indexes credentials Secrets by their owner. It also makes the manager cache Secrets, which needs
// permissions for them.
func indexSecrets(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.Secret{}, byOwner, func(obj client.Object) []string {
		owner := metav1.GetControllerOf(obj)
		if owner == nil || owner.Kind != kind || owner.Name == obj.GetName() || obj.GetLabels()[v1beta1.ClientSecretLabel] != v1beta1.ClientSecretGenerated {
			return nil
		}
		return []string{string(owner.UID)}
	})
}

func clientIDKey(realm, clientID string) string { return realm + "/" + clientID }

// subjectKeys returns the index keys of bySubject. They contain no issuer, because its name means
// something only in the Realm.
func subjectKeys(c *v1beta1.ApiClient) []string {
	var keys []string
	for _, identity := range c.Spec.Identities {
		subject := identity.Subject
		if name := identity.ServiceAccount.Name; name != "" {
			subject = accountSubject(c.Namespace, name)
		}
		if subject != "" {
			keys = append(keys, subjectKey(c.Spec.RealmRef.Name, subject))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func subjectKey(realm, subject string) string { return realm + "/" + subject }

// providedNames returns the index keys of byProvided.
func providedNames(c *v1beta1.ApiClient) []string {
	var names []string
	if provided := secretSource(c).Provided; provided != nil {
		names = append(names, provided.SecretRef.Name)
	}
	for _, h := range secretSource(c).Hashed {
		if h.HashSecretRef.Name != "" {
			names = append(names, h.HashSecretRef.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
