package apiclient

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
)

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
	if err := readRealm(ctx, r.Client, r.Namespaces.Get, &seen); err != nil {
		return false
	}
	if seen.realm == nil {
		return true
	}
	coverage := covered(&seen.request)
	return coverage.grant == nil || len(coverage.lacks) > 0
}
