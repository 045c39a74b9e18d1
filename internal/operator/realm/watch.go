package realm

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
)

// concurrency is the number of Realms that are reconciled in parallel. Parallelism hides API server
// latency.
const concurrency = 4

// limits keep a worker for urgent requests, and one for the others. All Realms are in the same namespace.
var limits = queue.Limits{Lane: concurrency - 1, Namespace: concurrency - 1}

// cache reads from the cache.
type cache struct{ client.Reader }

// urgent reports whether the clients of a Realm must not get tokens: it is suspended, being deleted, or
// doesn't exist.
func (c cache) urgent(request reconcile.Request) bool {
	realm := &v1beta1.Realm{}
	if err := c.Get(context.Background(), request.NamespacedName, realm); err != nil {
		return apierrors.IsNotFound(err)
	}
	return realm.Spec.Suspend || !realm.DeletionTimestamp.IsZero()
}

const (
	// countDelay is how long a changed number of clients waits for other changes.
	countDelay = time.Second
	// deletedDelay is the same after the deletion of a client, which can be the last one.
	deletedDelay = countDelay / 2
)

// countHandler requests the Realms of created and deleted ApiClients. The queue merges the requests that
// wait, so many clients cause one reconcile for each write of their number. Those that exist when the
// controller starts need none, because it reconciles all Realms then.
func (c cache) countHandler(now func() time.Time) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.IsInInitialList {
				return
			}
			if realm := c.realmOf(ctx, e.Object); realm == nil {
				return
			} else if none(realm.Status.Clients) {
				queue.Add(requestOf(realm))
			} else {
				queue.AddAfter(requestOf(realm), max(countDelay, apply.StatusPause(realm, now())))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if realm := c.realmOf(ctx, e.Object); realm != nil {
				queue.AddAfter(requestOf(realm), deletedDelay)
			}
		},
	}
}

func none(clients *int32) bool { return clients == nil || *clients == 0 }

// realmOf returns the Realm of an ApiClient, or nil. One that doesn't exist yet is reconciled when it is created.
func (c cache) realmOf(ctx context.Context, object client.Object) *v1beta1.Realm {
	apiClient, ok := object.(*v1beta1.ApiClient)
	realm := &v1beta1.Realm{}
	if !ok || c.Get(ctx, client.ObjectKey{Name: apiClient.Spec.RealmRef.Name}, realm) != nil {
		return nil
	}
	return realm
}

func requestOf(realm *v1beta1.Realm) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(realm)}
}
