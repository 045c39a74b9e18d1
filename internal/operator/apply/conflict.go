package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ConflictDelay is the time between a conflict and the retry. Caches usually lag less.
const ConflictDelay = 200 * time.Millisecond

// IsStale reports whether writes failed only because they were based on a stale read. The
// caller must then read again before it decides.
func IsStale(err error) bool {
	type joined interface {
		error
		Unwrap() []error
	}
	if all, ok := errors.AsType[joined](err); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(e error) bool { return !IsStale(e) })
	}
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// RetryConflicts returns a reconciler that runs r and retries it after ConflictDelay if the
// error satisfies IsStale. Conflicts are part of normal operation, so they are logged at debug
// level and not counted as reconcile errors. The API server rejects every write based on a stale
// read, so nothing depends on the delay.
func RetryConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if !IsStale(err) {
			return result, err
		}
		ctrl.LoggerFrom(ctx).V(1).Info("Write conflict, reconciling again", "error", err.Error())
		return reconcile.Result{RequeueAfter: ConflictDelay}, nil
	})
}
