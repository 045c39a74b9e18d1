package operator

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
)

// barrier is a manager that keeps a new leader from deciding until its caches contain all changes that
// were made before the election. Each informer has a watch of its own, so the ApiClients of a standby
// operator can be older than their records.
type barrier struct {
	ctrl.Manager

	candidate *leader.Candidate
	informers []*informers.Set
	vacant    *coordinationv1.Lease // as it was before the caches listed the objects; nil if another process led
	passed    chan struct{}
}

func newBarrier(mgr ctrl.Manager, candidate *leader.Candidate, sets ...*informers.Set) (ctrl.Manager, error) {
	b := &barrier{Manager: mgr, candidate: candidate, informers: sets, passed: make(chan struct{})}
	for _, runnable := range []manager.Runnable{candidate, manager.RunnableFunc(b.catchUp)} {
		if err := mgr.Add(runnable); err != nil {
			return nil, fmt.Errorf("adding the candidate for the leader Lease, or the barrier: %w", err)
		}
	}
	return b, nil
}

// Start starts the manager. An operator whose container starts again needn't wait for the election, because it
// clears the Lease of its former container before.
func (b *barrier) Start(ctx context.Context) error {
	b.vacant = b.candidate.Vacant(ctx)
	return b.Manager.Start(ctx)
}

// Add adds a runnable. If it needs leader election, it also waits until the caches have caught up.
func (b *barrier) Add(runnable manager.Runnable) error {
	if elected, ok := runnable.(manager.LeaderElectionRunnable); ok && !elected.NeedLeaderElection() {
		return b.Manager.Add(runnable)
	}
	return b.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-b.passed:
		}
		return runnable.Start(ctx)
	}))
}

// catchUp waits until the caches have caught up. If no process has led since before their lists began, these already
// contain all that former leaders wrote.
func (b *barrier) catchUp(ctx context.Context) error {
	if !b.candidate.FirstSince(ctx, b.vacant) {
		all, ctx := errgroup.WithContext(ctx)
		for _, set := range b.informers {
			all.Go(func() error { return set.CatchUp(ctx) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	ctrl.Log.Info("Caches contain all that former leaders wrote")
	close(b.passed)
	return nil
}

// startedCache makes the manager start a cache before the election, and wait until it is synced.
type startedCache struct{ cache.Cache }

// GetCache returns the cache.
func (s startedCache) GetCache() cache.Cache { return s.Cache }
