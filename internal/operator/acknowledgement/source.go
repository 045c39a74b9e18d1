package acknowledgement

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

// Watch feeds the tracker from the heartbeat Leases in the manager's cache. It also adds the tracker's
// Members to the manager: see NewMembers.
func (t *Tracker) Watch(ctx context.Context, mgr ctrl.Manager, system string, lost Lost, collected func()) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return fmt.Errorf("watching heartbeat Leases: %w", err)
	}
	registration, err := informer.AddEventHandler(t.Handler())
	if err != nil {
		return fmt.Errorf("watching heartbeat Leases: %w", err)
	}
	t.synced = registration.HasSynced
	return mgr.Add(NewMembers(t, mgr.GetClient(), system, lost, collected))
}

// Handler returns the event handler of the informer of heartbeat Leases, including the operator's own.
func (t *Tracker) Handler() toolscache.ResourceEventHandler { return leaseHandler{t} }

// Source returns a source that reconciles objects of the given kind when their State changes. The
// controller starts after the tracker has processed all existing Leases.
func (t *Tracker) Source(kind Kind) source.SyncingSource {
	return &kindSource{tracker: t, kind: kind}
}

type kindSource struct {
	tracker *Tracker
	kind    Kind
}

// Start registers the controller's queue.
func (s *kindSource) Start(_ context.Context, q queue) error {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	s.tracker.queues[s.kind] = q
	return nil
}

// WaitForSync waits until the tracker has processed all existing Leases.
func (s *kindSource) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.tracker.synced) {
		return fmt.Errorf("waiting for the heartbeat Leases: %w", context.Cause(ctx))
	}
	return nil
}

var _ source.TypedSyncingSource[reconcile.Request] = &kindSource{}

// leaseHandler passes the informer's events to the tracker.
type leaseHandler struct{ tracker *Tracker }

func (h leaseHandler) OnAdd(obj any, _ bool) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Namespace != h.tracker.namespace {
		return
	}
	switch lease.Labels[heartbeat.Label] {
	case heartbeat.LabelValue:
		h.tracker.setLease(lease)
	case heartbeat.OperatorLabelValue:
		h.tracker.setArrived(lease.ResourceVersion)
	}
}

func (h leaseHandler) OnUpdate(_, obj any) { h.OnAdd(obj, false) }

func (h leaseHandler) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if lease, ok := obj.(*coordinationv1.Lease); ok {
		h.tracker.removeServer(lease.Name)
	}
}
