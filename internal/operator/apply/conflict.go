package apply

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ConflictDelay is the time between the first conflict and the retry. A cache usually catches up
// sooner. The delay doubles with each consecutive conflict, because each retry with a stale cache
// costs the API server a request.
const ConflictDelay = 10 * time.Millisecond

// errDeleted is the error of a write to an object that was deleted after it was read.
var errDeleted = errors.New("the object was deleted")

// deleted returns errDeleted if a write failed because the object does not exist, otherwise err.
func deleted(err error) error {
	if apierrors.IsNotFound(err) {
		return errDeleted
	}
	return err
}

// IsStale reports whether writes failed only because they were based on a stale read. The caller
// must then read the objects again before it decides.
func IsStale(err error) bool {
	type joined interface {
		error
		Unwrap() []error
	}
	if all, ok := errors.AsType[joined](err); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(e error) bool { return !IsStale(e) })
	}
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, errDeleted)
}

// MaxConflicts is the number of consecutive conflicts on one object that are retried as part of
// normal operation, which takes about 10 seconds. A conflict that lasts longer requires an
// administrator, for example because a Secret with that name belongs to another owner.
const MaxConflicts = 10

// RetryConflicts returns a reconciler that runs r, and retries it if the error satisfies IsStale.
// The first retry follows after ConflictDelay. Conflicts are part of normal operation, so they are
// logged at debug level and not counted as reconcile errors. After MaxConflicts consecutive
// conflicts it returns the error, so that it is logged, counted, and retried with backoff. The API
// server rejects every write based on a stale read, so nothing depends on the delay.
func RetryConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return &conflictRetrier{reconciler: r, conflicts: map[reconcile.Request]int{}}
}

type conflictRetrier struct {
	reconciler reconcile.Reconciler

	mu        sync.Mutex
	conflicts map[reconcile.Request]int // consecutive conflicts; absent if there are none
}

// Reconcile implements reconcile.Reconciler.
func (c *conflictRetrier) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := c.reconciler.Reconcile(ctx, request)
	delay, ok := c.retry(request, IsStale(err))
	if !ok {
		return result, err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Write conflict, reconciling again", "error", err.Error())
	return reconcile.Result{RequeueAfter: delay}, nil
}

// retry counts a conflict and returns the delay before the retry. ok is false if there is no
// conflict, or too many in a row. Any outcome other than a conflict resets the count.
func (c *conflictRetrier) retry(request reconcile.Request, conflict bool) (delay time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !conflict {
		delete(c.conflicts, request)
		return 0, false
	}
	before := c.conflicts[request]
	if before >= MaxConflicts {
		return 0, false
	}
	c.conflicts[request]++
	return ConflictDelay << before, true
}
