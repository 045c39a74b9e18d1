package realm

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

const (
	// countInterval is the shortest time between two writes of a status that differs only in the number of
	// clients.
	countInterval = 5 * time.Second
	// countDelay is how long a changed number of clients waits for other changes.
	countDelay = time.Second
)

// countWait returns how long the write of a new status waits, if the number of clients was last written at
// the given time. The first client is written at once, because it protects the Realm from deletion. Other
// changes wait if nothing else has changed. It is a pure function.
func countWait(before, after v1beta1.RealmStatus, written, now time.Time) time.Duration {
	if hadNone := before.Clients == nil || *before.Clients == 0; hadNone {
		return 0
	}
	before.Clients = after.Clients
	if !equality.Semantic.DeepEqual(before, after) {
		return 0
	}
	return countRemaining(written, now)
}

// countRemaining returns the rest of the interval after the last write. A clock that was set back doesn't
// make it longer.
func countRemaining(written, now time.Time) time.Duration {
	return max(0, min(written.Add(countInterval).Sub(now), countInterval))
}

// counts contains when the number of clients of each Realm was last written. After a restart it is empty,
// so that one write can come earlier; no other decision depends on it. The zero value is ready to use.
type counts struct {
	mu      sync.Mutex
	written map[string]time.Time
}

func (c *counts) last(realm string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written[realm]
}

// note records that a status was written. No write waits after one without clients.
func (c *counts) note(realm string, before, after v1beta1.RealmStatus, now time.Time) {
	if equality.Semantic.DeepEqual(before.Clients, after.Clients) {
		return
	}
	if *after.Clients == 0 {
		c.forget(realm)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == nil {
		c.written = map[string]time.Time{}
	}
	c.written[realm] = now
}

func (c *counts) forget(realm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, realm)
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
	queue.AddAfter(request, countDelay+countRemaining(r.counts.last(realm.Name), r.Now()))
}
