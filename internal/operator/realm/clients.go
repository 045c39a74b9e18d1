package realm

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// countDelay is how long a changed number of clients waits for other changes.
const countDelay = time.Second

// countWait returns how long the operator waits before it writes a new status. It writes the first client
// immediately, because a count above 0 protects the Realm from deletion. A later change of the count waits, unless
// the status also differs in something else.
func countWait(realm *v1beta1.Realm, after v1beta1.RealmStatus, now time.Time) time.Duration {
	before := realm.Status
	if hadNone := before.Clients == nil || *before.Clients == 0; hadNone {
		return 0
	}
	before.Clients = after.Clients
	if !equality.Semantic.DeepEqual(before, after) {
		return 0
	}
	return apply.StatusPause(realm, now)
}

// countHandler requests the Realms of created and deleted ApiClients. The queue merges the requests that
// wait, so many clients cause one reconcile for each write of their number. Those that exist when the
// controller starts need none, because it reconciles all Realms then.
func (r *Reconciler) countHandler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !e.IsInInitialList {
				r.enqueueRealmOf(ctx, e.Object, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.enqueueRealmOf(ctx, e.Object, queue)
		},
	}
}

func (r *Reconciler) enqueueRealmOf(ctx context.Context, object client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	c, ok := object.(*v1beta1.ApiClient)
	if !ok {
		return
	}
	request, realm := reconcile.Request{NamespacedName: client.ObjectKey{Name: c.Spec.RealmRef.Name}}, &v1beta1.Realm{}
	if err := r.Client.Get(ctx, request.NamespacedName, realm, client.UnsafeDisableDeepCopy); err != nil {
		return // A Realm that doesn't exist yet is reconciled when it is created.
	}
	if realm.Status.Clients == nil || *realm.Status.Clients == 0 {
		queue.Add(request)
		return
	}
	queue.AddAfter(request, max(countDelay, apply.StatusPause(realm, r.Now())))
}
