package apiclient

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// Cache indexes of ApiClients: by the realm's name, by realm and client id, and by the
// name of the Secret that is provided.
const (
	byRealm    = "realm"
	byClientID = "clientID"
	byProvided = "provided"
)

// byAccount is the cache index of ApiClients by the names of their service accounts.
const byAccount = "account"

// byOwner is the cache index of Secrets by the UID of the ApiClient that they belong to.
const byOwner = "owner"

func indexFields(ctx context.Context, indexer client.FieldIndexer) error {
	for field, key := range map[string]func(*v1alpha1.ApiClient) string{
		byRealm:    func(c *v1alpha1.ApiClient) string { return c.Spec.RealmRef.Name },
		byClientID: clientIDKey,
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
	if err := indexer.IndexField(ctx, &v1alpha1.ApiClient{}, byAccount, accountNames); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &corev1.Secret{}, byOwner, func(obj client.Object) []string {
		owner := metav1.GetControllerOf(obj)
		if owner == nil || owner.Kind != kind || obj.GetLabels()[v1alpha1.ClientSecretLabel] != v1alpha1.ClientSecretGenerated {
			return nil
		}
		return []string{string(owner.UID)}
	})
}

func clientIDKey(c *v1alpha1.ApiClient) string {
	return c.Spec.RealmRef.Name + "/" + c.EffectiveClientID()
}

// realmMatters passes over changes of a Realm that make no difference to its clients.
func realmMatters() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.Realm)
		after, okAfter := e.ObjectNew.(*v1alpha1.Realm)
		return okBefore && okAfter && readiness(before) != readiness(after)
	}})
}

// readiness is what a Realm's Ready condition says.
func readiness(realm *v1alpha1.Realm) string {
	ready := meta.FindStatusCondition(realm.Status.Conditions, string(v1alpha1.ConditionReady))
	if ready == nil {
		return ""
	}
	return string(ready.Status) + ready.Reason
}

// rivalsOf returns the other ApiClients that claim the same client id: when one comes or
// goes, another may have to yield or may move up.
func (r *Reconciler) rivalsOf(ctx context.Context, obj client.Object) []reconcile.Request {
	c, ok := obj.(*v1alpha1.ApiClient)
	if !ok {
		return nil
	}
	rivals := r.requests(ctx, client.MatchingFields{byClientID: clientIDKey(c)})
	for i, rival := range rivals {
		if rival.Namespace == c.Namespace && rival.Name == c.Name {
			return append(rivals[:i], rivals[i+1:]...)
		}
	}
	return rivals
}

func (r *Reconciler) clientsOf(ctx context.Context, realm client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{byRealm: realm.GetName()})
}

// clientsIn returns the ApiClients of a namespace, and their rivals elsewhere: when a realm
// allows the namespace or no longer does, it decides about them too.
func (r *Reconciler) clientsIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	clients := &v1alpha1.ApiClientList{}
	if err := r.Client.List(ctx, clients, client.InNamespace(namespace.GetName())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "ApiClients could not be listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range clients.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clients.Items[i])})
		requests = append(requests, r.rivalsOf(ctx, &clients.Items[i])...)
	}
	return requests
}

// clientsWith returns the ApiClients that a Secret is provided for.
func (r *Reconciler) clientsWith(ctx context.Context, secret client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(secret.GetNamespace()), client.MatchingFields{byProvided: secret.GetName()})
}

func (r *Reconciler) allClients(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx)
}

func (r *Reconciler) requests(ctx context.Context, selection ...client.ListOption) []reconcile.Request {
	clients := &v1alpha1.ApiClientList{}
	if err := r.Client.List(ctx, clients, selection...); err != nil {
		// A cache that runs always answers; what remains is a stopping process.
		ctrl.LoggerFrom(ctx).Error(err, "ApiClients could not be listed")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(clients.Items))
	for i := range clients.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clients.Items[i])})
	}
	return requests
}
