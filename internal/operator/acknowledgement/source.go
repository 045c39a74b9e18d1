package acknowledgement

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
)

// Observer also needs the heartbeat Leases.
type Observer interface {
	// SetLease is called with each Lease and each change of it.
	SetLease(lease *coordinationv1.Lease)
	// RemoveLease is called with the name of a deleted Lease.
	RemoveLease(name string)
}

// Watch feeds the tracker and the observers from the heartbeat Leases in the manager's cache. It also adds
// the tracker's Members to the manager: see NewMembers.
func (t *Tracker) Watch(ctx context.Context, mgr ctrl.Manager, system string, lost Lost, observers ...Observer) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return fmt.Errorf("watching heartbeat Leases: %w", err)
	}
	registration, err := informer.AddEventHandler(t.Handler(observers...))
	if err != nil {
		return fmt.Errorf("watching heartbeat Leases: %w", err)
	}
	t.synced = registration.HasSynced
	return mgr.Add(NewMembers(t, mgr.GetClient(), system, lost))
}

// Handler returns the event handler of the informer of heartbeat Leases, including the operator's own.
func (t *Tracker) Handler(observers ...Observer) toolscache.ResourceEventHandler {
	return informers.Handler(func(lease *coordinationv1.Lease) {
		switch {
		case lease.Namespace != t.namespace:
		case lease.Labels[heartbeat.Label] == heartbeat.LabelValue:
			t.setLease(lease)
			for _, o := range observers {
				o.SetLease(lease)
			}
		case lease.Labels[heartbeat.Label] == heartbeat.OperatorLabelValue:
			t.setArrived(lease.ResourceVersion)
		}
	}, func(lease *coordinationv1.Lease) {
		if lease.Namespace != t.namespace {
			return
		}
		t.removeServer(lease.Name)
		for _, o := range observers {
			o.RemoveLease(lease.Name)
		}
	})
}

// Source returns a source that reconciles objects of the given kind when their State changes. The
// controller starts after the tracker has processed all existing Leases.
func (t *Tracker) Source(kind Kind) source.SyncingSource { return t.changed[kind] }

// Synced reports whether all existing Leases were processed.
func (t *Tracker) Synced() bool { return t.synced != nil && t.synced() }
