package acknowledgement

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

// collectInterval is the time between two checks for stale Leases.
const collectInterval = 5 * time.Second

// collector deletes Leases left behind by servers that exited without deleting them.
type collector struct {
	tracker   *Tracker
	client    client.Client
	namespace string
	now       func() time.Time
	lost      Lost
	collected func()
}

// Lost persists that uses of credentials before a time may be missing. The collector calls it
// before it deletes a Lease, because the Lease is the only sign that a token server may not have
// reported all uses.
type Lost func(ctx context.Context, c client.Client, before time.Time) error

// Start collects stale Leases until ctx is canceled. The manager runs it only on the leader.
func (c *collector) Start(ctx context.Context) error {
	ticker := time.NewTicker(collectInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.collect(ctx)
		}
	}
}

func (c *collector) collect(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx)
	leases := &coordinationv1.LeaseList{}
	err := c.client.List(ctx, leases, client.InNamespace(c.namespace), client.MatchingLabels{heartbeat.Label: heartbeat.LabelValue})
	if err != nil {
		log.Error(err, "Failed to list heartbeat Leases")
		return
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if !c.tracker.stale(lease, c.now()) {
			continue
		}
		if err := c.lost(ctx, c.client, c.now()); err != nil {
			log.Error(err, "Failed to persist that a token server may not have reported its uses, will retry", "lease", lease.Name)
			return
		}
		// The preconditions make the deletion fail if the server has renewed the Lease since it
		// was cached.
		err := c.client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			// The API server may be down, so the token server may still be alive.
			c.tracker.extendDeadline(lease.Name, c.now())
			if apierrors.IsConflict(err) {
				continue // The server has renewed the Lease.
			}
			log.Error(err, "Failed to delete stale heartbeat Lease", "lease", lease.Name)
			continue
		}
		c.collected()
		log.Info("Deleted stale heartbeat Lease", "lease", lease.Name)
	}
}
