package instance

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
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
	current := seen.instance.Status.DeepCopy()
	meta.RemoveStatusCondition(&current.Conditions, string(v1beta1.ConditionMemorySufficient)) // every operator reports that
	if equality.Semantic.DeepEqual(*current, s) {
		return ctrl.Result{RequeueAfter: queue.After(next, now)}, nil
	}
	if wait := apply.StatusPause(seen.instance, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{RequeueAfter: queue.After(next, now)}, r.writeStatus(ctx, seen.instance, s)
}
