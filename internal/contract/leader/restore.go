package leader

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Restorer takes the Lease for a restore.
type Restorer struct {
	Client client.Client
	// Namespace is the system namespace.
	Namespace string
	// FieldOwner is the field manager of the writes.
	FieldOwner client.FieldOwner
	// Now returns the time of the API server.
	Now func() time.Time
	// Waiting is called before Acquire waits for the former leader to stop.
	Waiting func(holder string, wait time.Duration)
}

// Held is the Lease while a restore holds it.
type Held struct {
	restorer *Restorer
	lease    *coordinationv1.Lease
	cancel   context.CancelCauseFunc
	stopped  chan struct{}
}

// Acquire takes the Lease and returns after no operator writes any longer. The returned context ends
// when the Lease is lost, with the cause ErrLost. The caller must call Release.
//
// The former leader renews the Lease conditionally, so its next renewal fails. It then stops before the
// duration of its last renewal has passed, as it would if another operator were to take over. Acquire
// waits for this duration. A leader that has released the Lease has stopped already.
//
// Errors: ErrRestoreRunning.
func (r *Restorer) Acquire(ctx context.Context) (context.Context, *Held, error) {
	former, err := read(ctx, r.Client, r.Namespace)
	if err != nil {
		return nil, nil, err
	}
	if other := restoreOf(former, r.Now()); other != nil && other.Running {
		return nil, nil, fmt.Errorf("%w: the leader Lease %s/%s is held by %s", ErrRestoreRunning, r.Namespace, LeaseName, other)
	}
	taken, err := r.take(ctx, former)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return r.Acquire(ctx) // The former leader has renewed it in the meantime.
	}
	if err != nil {
		return nil, nil, fmt.Errorf("taking the leader Lease %s/%s: %w", r.Namespace, LeaseName, err)
	}
	held := &Held{restorer: r, lease: taken, cancel: func(error) {}, stopped: make(chan struct{})}
	if wait := remaining(former); wait > 0 {
		r.Waiting(holderOf(former), wait)
		select {
		case <-ctx.Done():
			close(held.stopped)
			held.Release(ctx)
			return nil, nil, ctx.Err()
		case <-time.After(wait):
		}
		// A leader that stops before its next renewal clears even a Lease that it no longer holds.
		if err := held.renewOnce(ctx); lost(err) {
			return r.Acquire(ctx)
		}
	}
	ctx, held.cancel = context.WithCancelCause(ctx)
	go held.renew(ctx)
	return ctx, held, nil
}

// remaining returns how long the former leader may go on. A restore that can be replaced has stopped.
func remaining(former *coordinationv1.Lease) time.Duration {
	holder := holderOf(former)
	if holder == "" || strings.HasPrefix(holder, restorePrefix) {
		return 0
	}
	return min(durationOf(former), maxDuration(holder))
}

// take makes the restore the holder, if the Lease is still as in former, which is nil if there was none.
func (r *Restorer) take(ctx context.Context, former *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: LeaseName}}
	next := int32(0)
	if former != nil {
		lease, next = former.DeepCopy(), transitions(former)+1
	}
	now := r.Now()
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: new(restorePrefix + string(uuid.NewUUID())), LeaseDurationSeconds: new(int32(RestoreDuration / time.Second)),
		AcquireTime: micro(now), RenewTime: micro(now), LeaseTransitions: &next,
	}
	if former == nil {
		return lease, r.Client.Create(ctx, lease, r.FieldOwner)
	}
	return lease, r.Client.Update(ctx, lease, r.FieldOwner)
}

// renew renews the Lease until ctx ends. It ends ctx if another process has taken the Lease, or if no
// renewal succeeds for renewDeadline.
func (h *Held) renew(ctx context.Context) {
	defer close(h.stopped)
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := h.renewOnce(ctx)
		switch {
		case err == nil:
			renewed = time.Now()
		case lost(err), time.Since(renewed) > renewDeadline:
			h.cancel(fmt.Errorf("%w: %w", ErrLost, err))
			return
		}
	}
}

func (h *Held) renewOnce(ctx context.Context) error {
	next := h.lease.DeepCopy()
	next.Spec.RenewTime = micro(h.restorer.Now())
	if err := h.restorer.Client.Update(ctx, next, h.restorer.FieldOwner); err != nil {
		return err
	}
	h.lease = next
	return nil
}

// lost reports whether a renewal failed because another process has changed the Lease.
func lost(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// Release gives the Lease up, so that an operator continues immediately. It is best effort: without it,
// another restore can take the Lease after a minute. It works after ctx has ended, too.
func (h *Held) Release(ctx context.Context) {
	h.cancel(context.Canceled)
	<-h.stopped
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewInterval)
	defer cancel()
	_ = h.restorer.release(ctx, h.lease)
}

// release clears the holder of the Lease, if it is still as given.
func (r *Restorer) release(ctx context.Context, lease *coordinationv1.Lease) error {
	return clearHolder(ctx, r.Client, lease, r.Now(), r.FieldOwner)
}

// Abort releases the Lease of a restore that has stopped without doing so, and returns that restore; nil
// if none holds the Lease.
//
// Errors: ErrRestoreRunning.
func (r *Restorer) Abort(ctx context.Context) (*Restore, error) {
	lease, err := read(ctx, r.Client, r.Namespace)
	if err != nil {
		return nil, err
	}
	found := restoreOf(lease, r.Now())
	if found == nil {
		return nil, nil //nolint:nilnil // There is nothing to abort.
	}
	if found.Running {
		return nil, fmt.Errorf("%w: the leader Lease %s/%s is held by %s; stop that process, and run the command again after a minute", ErrRestoreRunning, r.Namespace, LeaseName, found)
	}
	if err := r.release(ctx, lease); err != nil {
		return nil, fmt.Errorf("releasing the leader Lease %s/%s: %w", r.Namespace, LeaseName, err)
	}
	return found, nil
}
