// Package queue orders the work of a controller so that no tenant delays another one. Urgent
// requests go first, namespaces take turns, and no namespace can occupy all workers. A Source adds
// work for other reasons than a change of a watched object.
package queue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Limits are the numbers of requests that may run at the same time. All are at least 1.
type Limits struct {
	// Lane limits all urgent requests, and all others. It is smaller than the number of workers, so
	// that neither wait until the other ones are processed.
	Lane int
	// Namespace limits the urgent requests of a namespace, and its other ones.
	Namespace int
}

const (
	minDelay = 5 * time.Millisecond
	maxDelay = 30 * time.Second
)

// After returns the time until an object must be reconciled at the given time, which is never zero; if at is
// zero, it returns zero, which means never.
func After(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(time.Nanosecond, at.Sub(now))
}

// NewLimiter returns the rate limiter of a controller. The delay after a failed reconcile doubles up to half
// a minute: that of controller-runtime grows to 16 minutes, for which a suspension would have no effect.
func NewLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minDelay, maxDelay)
}

// Queue is a work queue that hands out requests in turn.
type Queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	order *order
}

// New returns a queue with the given name in metrics. urgent reports whether a request is urgent; it
// is called whenever a request is added, and must not block.
func New(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], limits Limits, urgent func(reconcile.Request) bool) *Queue {
	o := newOrder(limits, urgent)
	return &Queue{order: o, TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
			Name: name,
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
				Name:  name,
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: o}),
			}),
		})}
}

// Done marks a request as processed. The worker that calls it must then call Get, which hands out
// a request that had to wait for this one.
func (q *Queue) Done(request reconcile.Request) {
	q.order.done(request)
	q.TypedRateLimitingInterface.Done(request)
}
