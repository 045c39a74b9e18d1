package realm

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// Reconcile reconciles one Realm. It updates the status even if it fails to write the record.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, err := r.gather(ctx, req)
	if err != nil || seen.realm == nil {
		return ctrl.Result{}, err
	}
	now := r.Now()
	decided, err := decide(seen, r.Instance, now, r.Random)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("generating keys for Realm %q: %w", req.Name, err)
	}
	r.Issuers.Want(req.Name, decided.fetch)
	if decided.unreadable == nil {
		r.Sealing.Want(req.Name, seen.realm.UID, decided.recorded, decided.request)
	}
	state, applyErr := r.apply(ctx, req, &seen, decided)
	if applyErr == nil {
		applyErr = r.finishRestore(ctx, &seen, decided.record)
	}
	if apply.IsStale(applyErr) {
		// The decision may be based on stale data, so do not report it in the status.
		return ctrl.Result{}, applyErr
	}
	r.measure(req.Name, decided, applyErr)
	statusErr := r.writeStatus(ctx, seen.realm, status(seen.realm, decided, state, r.Instance, now))

	result := ctrl.Result{}
	if !decided.next.IsZero() {
		result.RequeueAfter = decided.next.Sub(now)
	}
	return result, errors.Join(applyErr, statusErr)
}

// measure counts a rotation and sets the time of the next one.
func (r *Reconciler) measure(realm string, d decision, applyErr error) {
	if d.rotates {
		r.Metrics.Rotation(metrics.SigningKey, applyErr)
	}
	r.Metrics.NextKeyRotation(realm, d.nextRotation)
}
