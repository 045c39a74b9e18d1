package issuerkeys

import (
	"context"
	"fmt"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

// Watch requests keys for the token servers that ask for them in their Leases.
func (f *Fetcher) Watch(ctx context.Context, mgr ctrl.Manager, namespace string) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return fmt.Errorf("watching the requests in heartbeat Leases: %w", err)
	}
	if _, err := informer.AddEventHandler(&leaseHandler{request: f.Request, namespace: namespace, seen: map[string][]heartbeat.Refresh{}}); err != nil {
		return fmt.Errorf("watching the requests in heartbeat Leases: %w", err)
	}
	return nil
}

// leaseHandler passes on each request once. A request that is still in the Lease with the next
// heartbeat is the same one.
type leaseHandler struct {
	request   func(realm, issuer string)
	namespace string

	mu   sync.Mutex
	seen map[string][]heartbeat.Refresh // the requests in each Lease, by name
}

func (h *leaseHandler) OnAdd(obj any, _ bool) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Namespace != h.namespace || lease.Labels[heartbeat.Label] != heartbeat.LabelValue {
		return
	}
	requests := heartbeat.ParseRefresh(lease)
	h.mu.Lock()
	before := h.seen[lease.Name]
	if h.seen[lease.Name] = requests; len(requests) == 0 {
		delete(h.seen, lease.Name)
	}
	h.mu.Unlock()
	for _, r := range requests {
		if !slices.Contains(before, r) {
			h.request(r.Realm, r.Issuer)
		}
	}
}

func (h *leaseHandler) OnUpdate(_, obj any) { h.OnAdd(obj, false) }

func (h *leaseHandler) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if lease, ok := obj.(*coordinationv1.Lease); ok && lease.Namespace == h.namespace {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.seen, lease.Name)
	}
}
