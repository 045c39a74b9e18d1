package apiclient

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// Cache indexes for ApiClients.
const (
	byRealm    = "realm"    // name of the Realm
	byClientID = "clientID" // name of the Realm and client ID, if it is not the default
	byProvided = "provided" // name of the provided Secret
	byAccount  = "account"  // names of the service accounts
	bySubject  = "subject"  // name of the Realm and exact subjects
)

// byOwner indexes credentials Secrets by the UID of the ApiClient that owns them, except those with
// the name of the ApiClient. An index with one entry for each client would need as much memory as
// the Secrets.
const byOwner = "owner"

func indexFields(ctx context.Context, indexer client.FieldIndexer) error {
	for field, key := range map[string]func(*v1alpha1.ApiClient) string{
		byRealm: func(c *v1alpha1.ApiClient) string { return c.Spec.RealmRef.Name },
		byClientID: func(c *v1alpha1.ApiClient) string {
			if c.Spec.ClientID == "" {
				return ""
			}
			return clientIDKey(c.Spec.RealmRef.Name, c.Spec.ClientID)
		},
		byProvided: func(c *v1alpha1.ApiClient) string {
			if provided := secretSource(c).Provided; provided != nil {
				return provided.SecretRef.Name
			}
			return ""
		},
	} {
		err := indexer.IndexField(ctx, &v1alpha1.ApiClient{}, field, func(obj client.Object) []string {
			if c, ok := obj.(*v1alpha1.ApiClient); ok && key(c) != "" {
				return []string{key(c)}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := indexer.IndexField(ctx, &v1alpha1.ApiClient{}, bySubject, subjectKeys); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &v1alpha1.ApiClient{}, byAccount, accountNames)
}

// indexSecrets makes the manager cache Secrets.
func indexSecrets(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.Secret{}, byOwner, func(obj client.Object) []string {
		owner := metav1.GetControllerOf(obj)
		if owner == nil || owner.Kind != kind || owner.Name == obj.GetName() || obj.GetLabels()[v1alpha1.ClientSecretLabel] != v1alpha1.ClientSecretGenerated {
			return nil
		}
		return []string{string(owner.UID)}
	})
}

func clientIDKey(realm, clientID string) string { return realm + "/" + clientID }

// realmMatters ignores changes to a Realm that do not affect its clients.
func realmMatters() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.Realm)
		after, okAfter := e.ObjectNew.(*v1alpha1.Realm)
		return okBefore && okAfter && readiness(before) != readiness(after)
	}})
}

// readiness returns the status and reason of a Realm's Ready condition.
func readiness(realm *v1alpha1.Realm) string {
	ready := meta.FindStatusCondition(realm.Status.Conditions, string(v1alpha1.ConditionReady))
	if ready == nil {
		return ""
	}
	return string(ready.Status) + ready.Reason
}

// clientsWaitingForID returns the ApiClients with the client ID of a deleted record. One of them can
// acquire the ID.
func (r *Reconciler) clientsWaitingForID(ctx context.Context, secret *corev1.Secret) []reconcile.Request {
	body, err := record.ReadClient(secret)
	if err != nil {
		// The ID of an unreadable record is unknown, and such records are rarely deleted.
		return r.requests(ctx)
	}
	requests := r.requests(ctx, client.MatchingFields{byClientID: clientIDKey(body.RealmName, body.ClientID)})
	// One more client can be waiting: the one with this client ID as its default.
	if namespace, name, found := strings.Cut(body.ClientID, "."); found {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}})
	}
	return requests
}

func (r *Reconciler) clientsOfRealm(ctx context.Context, realm client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{byRealm: realm.GetName()})
}

// clientsOfNamespace returns the ApiClients in a namespace. The namespace's labels determine which
// grants include it.
func (r *Reconciler) clientsOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(namespace.GetName()))
}

// clientsOfProvidedSecret returns the ApiClients that refer to a provided Secret.
func (r *Reconciler) clientsOfProvidedSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(secret.GetNamespace()), client.MatchingFields{byProvided: secret.GetName()})
}

func (r *Reconciler) allClients(ctx context.Context) []reconcile.Request {
	return r.requests(ctx)
}

// maxBundleSpread is the longest time over which the writes of a changed CA bundle are spread.
const maxBundleSpread = time.Hour

// bundleSpread returns the time over which the writes of a changed CA bundle are spread. It is a small
// part of the time that workloads have to load the bundle.
func (r *Reconciler) bundleSpread() time.Duration {
	if r.Instance.TLS.Managed == nil {
		return 0
	}
	return r.Instance.Scaled(min(maxBundleSpread, r.Instance.TLS.Managed.Overlap.Duration/8))
}

func (r *Reconciler) requests(ctx context.Context, selection ...client.ListOption) []reconcile.Request {
	clients := &v1alpha1.ApiClientList{}
	if err := r.Client.List(ctx, clients, append(selection, client.UnsafeDisableDeepCopy)...); err != nil {
		// A running cache does not return errors, so the process must be stopping.
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list ApiClients")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(clients.Items))
	for i := range clients.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clients.Items[i])})
	}
	return requests
}
