package tokenservice

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// Reconcile updates the token service to match the configuration.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	seen, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.Account != "" && seen.operator == nil {
		// Realmkeeper is being uninstalled. Objects created now would have no owner and would
		// remain.
		return ctrl.Result{}, nil
	}
	now := r.Now()
	decided, certificateErr := decide(seen, r.Instance, r.Image, now, r.Random)
	applyErr := r.apply(ctx, seen, decided)
	if applyErr == nil {
		r.report(ctx, seen, decided)
	}
	if err := errors.Join(certificateErr, applyErr); err != nil {
		return ctrl.Result{}, err
	}
	next := timestamp.Earliest(decided.next, r.publishTrustBundle(ctx, seen, decided, now))
	return ctrl.Result{RequeueAfter: queue.After(next, now)}, nil
}
