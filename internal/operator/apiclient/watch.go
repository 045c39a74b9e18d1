package apiclient

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
)

// afterStart ignores the objects that exist when the controller starts, because it then reconciles all
// ApiClients, and the owners of all records.
var afterStart = predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}

// realmMatters ignores changes to a Realm that do not affect its clients.
func realmMatters() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1beta1.Realm)
		after, okAfter := e.ObjectNew.(*v1beta1.Realm)
		return okBefore && okAfter && (readiness(before) != readiness(after) || before.Status.StatusListURI != after.Status.StatusListURI || !requestedRelease(before).Equal(requestedRelease(after)))
	}})
}

// readiness returns the status and reason of a Realm's Ready condition.
func readiness(realm *v1beta1.Realm) string {
	ready := meta.FindStatusCondition(realm.Status.Conditions, string(v1beta1.ConditionReady))
	if ready == nil {
		return ""
	}
	return string(ready.Status) + ready.Reason
}

// clientsWaiting returns the ApiClients that can acquire what the holder of a deleted record held.
func (r *Reconciler) clientsWaiting(ctx context.Context, secret *corev1.Secret) []reconcile.Request {
	switch record.KindOf(secret) {
	case record.KindClient:
		return r.clientsWaitingForID(ctx, secret)
	case record.KindSubject:
		return r.clientsWaitingForSubject(ctx, secret)
	}
	return nil
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

// clientsWaitingForSubject returns the ApiClients that list the subject of a deleted record. One of
// them can acquire it.
func (r *Reconciler) clientsWaitingForSubject(ctx context.Context, secret *corev1.Secret) []reconcile.Request {
	body, err := record.ReadSubject(secret)
	if err != nil {
		return r.requests(ctx) // Its subject is unknown, and such records are rarely deleted.
	}
	return r.requests(ctx, client.MatchingFields{bySubject: subjectKey(body.RealmName, body.Subject)})
}

func (r *Reconciler) clientsOfRealm(ctx context.Context, realm client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{byRealm: realm.GetName()})
}

// clientsOfNamespace returns the ApiClients in a namespace. The namespace's labels determine which
// grants include it.
func (r *Reconciler) clientsOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(namespace.GetName()))
}

// clientsOfSecret returns the ApiClients that refer to a Secret, and the one that owns it.
func (r *Reconciler) clientsOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	requests := r.requests(ctx, client.InNamespace(secret.GetNamespace()), client.MatchingFields{byProvided: secret.GetName()})
	if owner := metav1.GetControllerOf(secret); owner != nil && owner.Kind == kind && strings.HasPrefix(owner.APIVersion, v1beta1.GroupVersion.Group+"/") {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: secret.GetNamespace(), Name: owner.Name}})
	}
	return requests
}

// accountSource enqueues the ApiClients that list a service account when it is created, deleted, or
// recreated with the same name.
func (r *Reconciler) accountSource() source.Source {
	return source.Kind(r.Accounts, client.Object(metadataOf("ServiceAccount")), handler.EnqueueRequestsFromMapFunc(r.clientsOfAccount), afterStart,
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || accountExists(e.ObjectOld) != accountExists(e.ObjectNew)
		}})
}

func (r *Reconciler) clientsOfAccount(ctx context.Context, account client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(account.GetNamespace()), client.MatchingFields{byAccount: account.GetName()})
}

func (r *Reconciler) allClients(ctx context.Context) []reconcile.Request {
	return r.requests(ctx)
}

// ReconcileAll reconciles all ApiClients soon, for example because their requests failed during an outage
// and would wait for their next retry.
func (r *Reconciler) ReconcileAll(ctx context.Context) { r.everything.Enqueue(r.allClients(ctx)...) }

func (r *Reconciler) requests(ctx context.Context, selection ...client.ListOption) []reconcile.Request {
	clients := &v1beta1.ApiClientList{}
	if err := r.Client.List(ctx, clients, selection...); err != nil {
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

// limits keep a quarter of the workers for urgent requests, and a quarter for the others. A
// namespace gets half of what remains.
var limits = queue.Limits{Lane: concurrency * 3 / 4, Namespace: concurrency * 3 / 8}

func (r *Reconciler) newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return queue.New(name, limiter, limits, r.urgent)
}

// urgent reports whether a client must not get tokens: it is suspended, expired, being deleted, doesn't
// exist, or has lost its grant.
func (r *Reconciler) urgent(request reconcile.Request) bool {
	ctx := context.Background()
	c := &v1beta1.ApiClient{}
	if err := r.Client.Get(ctx, request.NamespacedName, c); err != nil {
		return apierrors.IsNotFound(err)
	}
	return c.Spec.Suspend || !c.DeletionTimestamp.IsZero() || c.Spec.ExpirationTime != nil && !r.Now().Before(c.Spec.ExpirationTime.Time) ||
		r.lostGrant(ctx, c)
}

// lostGrant reports whether no grant covers a client any longer that was Accepted, according to the caches.
func (r *Reconciler) lostGrant(ctx context.Context, c *v1beta1.ApiClient) bool {
	if !meta.IsStatusConditionTrue(c.Status.Conditions, string(v1beta1.ConditionAccepted)) {
		return false
	}
	seen := observed{request: request{instance: r.Instance, client: c}}
	if err := readRealmFrom(ctx, r.Client, r.Namespaces.Get, &seen); err != nil {
		return false
	}
	if seen.realm == nil {
		return true
	}
	coverage := covered(&seen.request)
	return !coverage.Covers()
}
