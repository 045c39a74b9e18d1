package acknowledgement

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Handler is what Watch gives to the informer of Leases.
func (t *Tracker) Handler(namespace string, now func() time.Time) toolscache.ResourceEventHandler {
	return leaseHandler{tracker: t, namespace: namespace, now: now}
}

// Sweep is what Watch has the manager do every few seconds.
func (t *Tracker) Sweep(ctx context.Context, c client.Client, namespace string, now func() time.Time) {
	(&sweeper{tracker: t, client: c, namespace: namespace, now: now, swept: func() {}}).sweep(ctx)
}
