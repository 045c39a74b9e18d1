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
// sooner. While conflicts last, the delay grows by the time for which they have lasted, because each
// retry with a stale cache costs the API server a request.
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
	return Each(err, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, errDeleted)
	})
}

// Each reports whether an error, or each of several joined ones, satisfies is.
func Each(err error, is func(error) bool) bool {
	type joined interface {
		error
		Unwrap() []error
	}
	if all, ok := errors.AsType[joined](err); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(e error) bool { return !Each(e, is) })
	}
	return is(err)
}

// MaxConflictDuration is how long every reconcile of one object can fail with a conflict in normal
// operation. The number of conflicts doesn't matter, because each change by another client triggers a
// reconcile. Conflicts that last longer need an administrator, for example because a Secret with that
// name belongs to another owner.
const MaxConflictDuration = 10 * time.Second

// RetryConflicts returns a reconciler that runs r, and retries it if the error satisfies IsStale.
// The first retry follows after ConflictDelay. Conflicts are part of normal operation, so they are
// logged at debug level and not counted as reconcile errors. After MaxConflictDuration, it returns the
// error, so that it is logged, counted, and retried with backoff.
// The API server rejects every write based on a stale read, so nothing depends on the delay.
func RetryConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return &conflictRetrier{reconciler: r, since: map[reconcile.Request]time.Time{}}
}

type conflictRetrier struct {
	reconciler reconcile.Reconciler

	mu    sync.Mutex
	since map[reconcile.Request]time.Time // times of the first of consecutive conflicts
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

// retry returns the delay before the retry. ok is false if there is no conflict, or if conflicts have
// lasted too long. Any outcome other than a conflict ends them.
func (c *conflictRetrier) retry(request reconcile.Request, conflict bool) (delay time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !conflict {
		delete(c.since, request)
		return 0, false
	}
	now := time.Now()
	since, lasting := c.since[request]
	if !lasting {
		since = now
		c.since[request] = since
	}
	lasted := now.Sub(since)
	return ConflictDelay + lasted, lasted < MaxConflictDuration
}
