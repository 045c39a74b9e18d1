package acknowledgement

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

// sweepInterval is how often the Leases are looked through for silent ones.
const sweepInterval = 5 * time.Second

// ancient is an age by the clocks' own word at which a Lease counts as dead without
// waiting: far beyond any difference between clocks that Kubernetes works with.
const ancient = 10 * heartbeat.Duration

// Watch connects the tracker to the heartbeat Leases that the manager's cache holds, and
// has the manager remove the Leases of servers that fell silent, and call swept for each.
func (t *Tracker) Watch(ctx context.Context, mgr ctrl.Manager, namespace string, now func() time.Time, swept func()) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return fmt.Errorf("watching heartbeat Leases: %w", err)
	}
	handler := leaseHandler{tracker: t, namespace: namespace, now: now}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watching heartbeat Leases: %w", err)
	}
	t.synced = registration.HasSynced
	return mgr.Add(&sweeper{tracker: t, client: mgr.GetClient(), namespace: namespace, now: now, swept: swept})
}

// Source makes a controller reconcile the objects of its kind whose State changed. The
// controller starts once all Leases are known.
func (t *Tracker) Source(kind Kind) source.SyncingSource {
	return &kindSource{tracker: t, kind: kind}
}

type kindSource struct {
	tracker *Tracker
	kind    Kind
}

// Start takes the queue of the controller.
func (s *kindSource) Start(_ context.Context, q queue) error {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	s.tracker.queues[s.kind] = q
	return nil
}

// WaitForSync waits until the tracker has seen the Leases that exist.
func (s *kindSource) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.tracker.synced) {
		return fmt.Errorf("waiting for the heartbeat Leases: %w", context.Cause(ctx))
	}
	return nil
}

var _ source.TypedSyncingSource[reconcile.Request] = &kindSource{}

// leaseHandler feeds the tracker from the informer.
type leaseHandler struct {
	tracker   *Tracker
	namespace string
	now       func() time.Time
}

func (h leaseHandler) OnAdd(obj any, _ bool) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Namespace != h.namespace || lease.Labels[heartbeat.Label] != heartbeat.LabelValue {
		return
	}
	now := h.now()
	beat, err := heartbeat.Parse(lease)
	if err != nil || now.Sub(beat.Renewed) > ancient {
		return
	}
	h.tracker.beat(lease.Name, beat, now)
}

func (h leaseHandler) OnUpdate(_, obj any) { h.OnAdd(obj, false) }

func (h leaseHandler) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if lease, ok := obj.(*coordinationv1.Lease); ok {
		h.tracker.gone(lease.Name)
	}
}

// sweeper removes the Leases of servers that ended without removing them.
type sweeper struct {
	tracker   *Tracker
	client    client.Client
	namespace string
	now       func() time.Time
	swept     func()
}

// Start sweeps until ctx ends. Only the leader does.
func (s *sweeper) Start(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.sweep(ctx)
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx)
	leases := &coordinationv1.LeaseList{}
	err := s.client.List(ctx, leases, client.InNamespace(s.namespace), client.MatchingLabels{heartbeat.Label: heartbeat.LabelValue})
	if err != nil {
		log.Error(err, "Heartbeat Leases could not be listed")
		return
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if !s.tracker.silent(lease, s.now()) {
			continue
		}
		// Deleted as the cache has it: a heartbeat in between saves it.
		err := s.client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			// Without the API server's word nobody is dead.
			s.tracker.excuse(lease.Name, s.now())
			log.Error(err, "Silent token server could not be looked into", "lease", lease.Name)
			continue
		}
		s.swept()
		log.Info("Token server is silent, its heartbeat Lease was removed", "lease", lease.Name)
	}
}
