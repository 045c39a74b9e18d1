package instance

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Reconcile creates the Instance if it is missing, and otherwise updates its status.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	seen, err := r.gather(ctx)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case seen.instance == nil:
		return ctrl.Result{}, r.create(ctx) // The event of the new object triggers the next reconcile.
	case !seen.instance.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil // Its deletion does.
	}
	now := r.Now()
	s, next := status(&seen, r.Instance, r.Version, now)
	if equality.Semantic.DeepEqual(seen.instance.Status, s) {
		return requeueAt(next, now), nil
	}
	if wait := writeDelay(seen.instance, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return requeueAt(next, now), r.writeStatus(ctx, seen.instance, s)
}

func requeueAt(next, now time.Time) ctrl.Result {
	if next.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(next.Sub(now), time.Millisecond)} // Zero would mean never.
}

// writeInterval is the minimum time between two writes of the status, so that an instance in which much
// happens causes few of them.
const writeInterval = 5 * time.Second

// writeDelay returns how long to wait before the status is written again. The time of the last write is in
// the managed fields, so it also holds after a restart. It has whole seconds.
func writeDelay(instance *v1beta1.Instance, now time.Time) time.Duration {
	const wait = writeInterval + time.Second
	for _, entry := range instance.ManagedFields {
		if entry.Manager == v1beta1.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "status" && entry.Time != nil {
			return min(entry.Time.Add(wait).Sub(now), wait) // The API server's clock may be ahead.
		}
	}
	return 0
}
