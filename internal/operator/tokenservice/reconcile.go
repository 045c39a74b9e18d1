package tokenservice

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
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
		r.report(ctx, seen, decided, now, certificateErr)
	}
	if err := errors.Join(certificateErr, applyErr); err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{}
	if !decided.next.IsZero() {
		result.RequeueAfter = max(decided.next.Sub(now), time.Millisecond) // Zero would mean never.
	}
	if recheck := r.recheckAfter(seen, decided, r.publishTrustBundle(ctx, seen, decided)); recheck > 0 && (result.RequeueAfter == 0 || recheck < result.RequeueAfter) {
		result.RequeueAfter = recheck
	}
	return result, nil
}
