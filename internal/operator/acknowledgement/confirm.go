package acknowledgement

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

// Confirm reports whether every token server serves the records, according to the API server and not to a
// cache. A step that can't be undone must wait for it: the delivery of a secret, a key that becomes Active
// or Retiring, or the early end of a secret. The caller must have read or written these versions of the
// records before.
//
// A server that has a Lease without a version may have listed the records already, and not these versions
// of them. Confirm waits for it, but for at most heartbeat.MaxJoin since the Lease was created: a server
// that takes longer lists again. A server without a Lease has not listed yet. Without any server that
// serves the records, there is nothing to confirm.
func (t *Tracker) Confirm(ctx context.Context, records ...Record) (bool, error) {
	leases := &coordinationv1.LeaseList{}
	if err := t.api.List(ctx, leases, client.InNamespace(t.namespace), client.MatchingLabels{heartbeat.Label: heartbeat.LabelValue}); err != nil {
		return false, fmt.Errorf("listing the heartbeat Leases: %w", err)
	}
	now, served := t.now(), false
	for i := range leases.Items {
		lease := &leases.Items[i]
		received, err := heartbeat.Parse(lease)
		switch {
		case err != nil || received.Dead:
		case received.Version == "":
			if now.Sub(lease.CreationTimestamp.Time) < heartbeat.MaxJoin {
				return false, nil
			}
		case !serves(&received, records):
			return false, nil
		default:
			served = true
		}
	}
	return served, nil
}
