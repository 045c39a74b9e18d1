package operator

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
)

// barrier is a manager that keeps a new leader from deciding until its caches contain all changes that
// were made before the election. Each informer has a watch of its own, so the ApiClients of a standby
// operator can be older than their records.
type barrier struct {
	ctrl.Manager

	informers []*informers.Set
	passed    chan struct{}
}

func newBarrier(mgr ctrl.Manager, sets ...*informers.Set) (ctrl.Manager, error) {
	b := &barrier{Manager: mgr, informers: sets, passed: make(chan struct{})}
	if err := mgr.Add(manager.RunnableFunc(b.catchUp)); err != nil {
		return nil, fmt.Errorf("adding the leader barrier: %w", err)
	}
	return b, nil
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

func (b *barrier) catchUp(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, set := range b.informers {
		all.Go(func() error { return set.CatchUp(ctx) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	ctrl.Log.Info("Caches contain all changes before the election")
	close(b.passed)
	return nil
}

// startedCache makes the manager start a cache before the election, and wait until it is synced.
type startedCache struct{ cache.Cache }

// GetCache returns the cache.
func (s startedCache) GetCache() cache.Cache { return s.Cache }
