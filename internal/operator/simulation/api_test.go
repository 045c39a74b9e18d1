package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
)

// api is the API server: its store, the requests that are in flight, and the watches. A process sends a
// request, the store processes it when it lands, and the process receives the response. Other steps can take
// place in between. A request lands even if its sender has died.
type api struct {
	store   *memory.Store
	scheme  *runtime.Scheme
	streams []*stream
	// stalled contains the objects that a watch cache of the API server had when it stopped. Watches of
	// the resource deliver nothing newer, and a read with resource version 0 returns these objects.
	stalled map[schema.GroupVersionResource]frozen
	// down means that the API server doesn't respond: each request fails.
	down bool
	// names are the names of the records' owners, for traces.
	names map[string]string

	mu       sync.Mutex
	requests []*request // in flight
}

// frozen is the state of a resource at a revision.
type frozen struct {
	revision int64
	objects  []*unstructured.Unstructured
}

// request is a request in flight.
type request struct {
	from     *process
	verb     string // "GET", "LIST", "WATCH", "POST", "PATCH", "APPLY", "STATUS", or "DELETE"
	resource schema.GroupVersionResource
	name     types.NamespacedName
	body     any   // what it writes
	decided  int64 // the revision when it was sent
	heard    int64 // the revision up to which the sender's watch of Leases had delivered then
	land     func() (any, error)

	result   any
	err      error
	answered chan struct{}
	orphaned bool // the sender is dead or has stopped waiting
}

func (r *request) reads() bool { return r.verb == "GET" || r.verb == "LIST" || r.verb == "WATCH" }

func (r *request) String() string {
	return fmt.Sprintf("%s: %s %s", r.from.name, r.verb, r.from.world.api.nameOf(r.resource, r.name))
}

// nameOf returns a short name of an object for traces.
func (a *api) nameOf(gvr schema.GroupVersionResource, name types.NamespacedName) string {
	kind := map[string]string{"realms": "Realm", "apiclients": "ApiClient", "secrets": "Secret", "leases": "Lease", "namespaces": "Namespace"}[gvr.Resource]
	if kind == "" {
		kind = gvr.Resource
	}
	if name.Namespace == recordsNamespace && gvr == secretResource {
		kind = "record"
		if owner := a.names[name.Name]; owner != "" {
			return "record of " + owner
		}
	}
	if name.Name == "" {
		return kind + "s"
	}
	return kind + " " + strings.TrimPrefix(name.Name, "token-server-")
}

var (
	errDead = errors.New("the process is dead")
	errDown = errors.New("connection refused")
)

// send sends a request and waits for the answer.
func (a *api) send(ctx context.Context, r *request) (any, error) {
	r.answered, r.decided, r.heard = make(chan struct{}), r.from.world.revision(), r.from.heard.Load()
	a.mu.Lock()
	if r.from.dead {
		a.mu.Unlock()
		return nil, errDead
	}
	if a.down {
		a.mu.Unlock()
		return nil, errDown
	}
	a.requests = append(a.requests, r)
	a.mu.Unlock()
	select {
	case <-r.answered:
		return r.result, r.err
	case <-ctx.Done():
		a.mu.Lock()
		defer a.mu.Unlock()
		r.orphaned = true
		return nil, ctx.Err()
	case <-r.from.killed:
		return nil, errDead
	}
}

// setDown makes the API server unavailable, or available again.
func (a *api) setDown(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

// inFlight returns the requests in flight, ordered by sender and object. A read whose sender is gone has no effect,
// so it isn't one of them.
func (a *api) inFlight() []*request {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = slices.DeleteFunc(a.requests, func(r *request) bool { return r.orphaned && r.reads() })
	sorted := slices.Clone(a.requests)
	slices.SortStableFunc(sorted, func(x, y *request) int {
		return cmp.Or(x.from.order-y.from.order, cmp.Compare(x.resource.Resource, y.resource.Resource), cmp.Compare(x.name.String(), y.name.String()))
	})
	return sorted
}

// take removes a request from those in flight.
func (a *api) take(r *request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = slices.DeleteFunc(a.requests, func(other *request) bool { return other == r })
}

// abandon marks the requests of a dead process.
func (a *api) abandon(p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.dead = true
	for _, r := range a.requests {
		r.orphaned = r.orphaned || r.from == p
	}
}

// stall stops the watch cache of a resource.
func (a *api) stall(gvr schema.GroupVersionResource) {
	objects, revision := a.store.List(gvr, memory.Selection{})
	a.stalled[gvr] = frozen{revision: revision, objects: objects}
}

// stream is a watch: of an informer of an operator, or of a token server. It delivers one event at a
// time.
type stream struct {
	owner     *process
	what      string // what it watches, such as "ApiClients"
	gvr       schema.GroupVersionResource
	selection memory.Selection
	at        int64 // the revision up to which events were delivered
	deliver   func(memory.Event)
	bookmark  func(revision int64) // may be nil
	expired   func()               // may be nil
	stopped   atomic.Bool
}

func (s *stream) String() string { return s.owner.name + "'s watch of " + s.what }

// expire ends a watch because the API server has lost its revision.
func (s *stream) expire() {
	if s.expired != nil {
		s.expired()
	}
	s.stopped.Store(true)
}

// open opens a watch that starts with the events after a revision.
func (a *api) open(s *stream) {
	a.streams = append(a.streams, s)
	if s.gvr == leaseResource {
		s.owner.heard.Store(s.at)
	}
}

// next returns the next event that a watch delivers.
func (a *api) next(s *stream) (memory.Event, bool) {
	events, _, err := a.store.Since(s.at)
	if err != nil {
		panic(err) // the history is longer than any run
	}
	limit := int64(-1)
	if f, stalled := a.stalled[s.gvr]; stalled {
		limit = f.revision
	}
	for _, e := range events {
		if limit >= 0 && e.Revision > limit {
			break
		}
		if e.Resource == s.gvr {
			if selected, ok := s.selection.Select(e); ok {
				return selected, true
			}
		}
		s.at = e.Revision
	}
	return memory.Event{}, false
}

// behind reports whether a stream has not been sent everything that is stored, for example because the API
// server's watch cache has stopped.
func (a *api) behind(s *stream) bool {
	events, _, err := a.store.Since(s.at)
	if err != nil {
		panic(err)
	}
	return slices.ContainsFunc(events, func(e memory.Event) bool {
		_, selected := s.selection.Select(e)
		return e.Resource == s.gvr && selected
	})
}

// get returns an object as it is in the store, or in the watch cache.
func (a *api) get(gvr schema.GroupVersionResource, name types.NamespacedName, cached bool) (*unstructured.Unstructured, error) {
	f, stalled := a.stalled[gvr]
	if !stalled || !cached {
		return a.store.Get(gvr, name)
	}
	for _, object := range f.objects {
		if client.ObjectKeyFromObject(object) == name {
			return object, nil
		}
	}
	return nil, notFound(gvr, name)
}

// list returns the selected objects as they are in the store, or in the watch cache.
func (a *api) list(gvr schema.GroupVersionResource, selection memory.Selection, cached bool) ([]*unstructured.Unstructured, int64) {
	f, stalled := a.stalled[gvr]
	if !stalled || !cached {
		return a.store.List(gvr, selection)
	}
	var selected []*unstructured.Unstructured
	for _, object := range f.objects {
		if _, ok := selection.Select(memory.Event{Type: watch.Added, Object: object}); ok {
			selected = append(selected, object)
		}
	}
	return selected, f.revision
}
