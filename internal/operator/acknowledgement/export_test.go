package acknowledgement

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Handler returns the event handler that Watch adds to the Lease informer.
func (t *Tracker) Handler(namespace string, now func() time.Time) toolscache.ResourceEventHandler {
	return leaseHandler{tracker: t, namespace: namespace, now: now}
}

// Collect runs garbage collection once. Watch makes the manager run it every few seconds.
func (t *Tracker) Collect(ctx context.Context, c client.Client, namespace string, now func() time.Time, lost Lost) {
	(&collector{tracker: t, client: c, namespace: namespace, now: now, lost: lost, collected: func() {}}).collect(ctx)
}
