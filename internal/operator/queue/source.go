package queue

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Source is a source of a controller whose requests come from other code. Unlike source.Channel, it never
// blocks this code: an informer's handler runs on every operator, and controllers only on the leader.
// The zero value is ready to use. A Source is for one controller, and safe for concurrent use.
type Source struct {
	// Synced reports whether the other code has processed all existing objects. The controller starts after
	// that. It is optional, and must be set before the controller starts.
	Synced func() bool

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

var _ source.SyncingSource = &Source{}

// Start is called by the controller.
func (s *Source) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	return nil
}

// WaitForSync is called by the controller.
func (s *Source) WaitForSync(ctx context.Context) error {
	if s.Synced != nil && !toolscache.WaitForCacheSync(ctx.Done(), s.Synced) {
		return fmt.Errorf("waiting for the objects that trigger requests: %w", context.Cause(ctx))
	}
	return nil
}

// Enqueue adds requests. Before the controller has started, it adds none and returns false: the controller
// reconciles all objects when it starts.
func (s *Source) Enqueue(requests ...reconcile.Request) bool {
	s.mu.Lock()
	queue := s.queue
	s.mu.Unlock()
	if queue == nil {
		return false
	}
	for _, request := range requests {
		queue.Add(request)
	}
	return true
}
