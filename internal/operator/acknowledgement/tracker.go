// Package acknowledgement tracks live token servers and the records that each one serves. It
// triggers a reconcile of every object whose state changes.
package acknowledgement

import (
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

// State describes whether the live token servers serve a record.
type State int

const (
	// NoServer means that no token server is live.
	NoServer State = iota
	// Waiting means that at least one live token server doesn't serve the record yet.
	Waiting
	// Acknowledged means that every live token server serves the record.
	Acknowledged
)

// Kind identifies the objects of one controller.
type Kind string

// Kinds of objects that have records.
const (
	Realm  Kind = "Realm"
	Client Kind = "ApiClient"
)

// Tracker holds the latest heartbeat of each live token server. It is safe for concurrent use.
type Tracker struct {
	mu      sync.Mutex
	servers map[string]server // by Lease name
	watched map[watch]answer
	// waiting contains the watched objects whose last state was Waiting. When a server loads newer
	// records, only these objects' states can change.
	waiting map[watch]struct{}
	queues  map[Kind]queue

	synced func() bool // set by Watch; true after all existing Leases were processed
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// server is a live token server. It is live as long as its Lease exists. observed is when the Lease
// last changed according to this process's clock, so other machines' clocks don't matter.
type server struct {
	heartbeat.Heartbeat
	observed time.Time
}

// watch identifies an object whose state has been requested.
type watch struct {
	kind    Kind
	request reconcile.Request
}

// answer is the state that was last returned for an object.
type answer struct {
	version     string
	state       State
	undecrypted string // names of servers; always empty for other objects than Realms
}

// NewTracker returns a tracker without servers.
func NewTracker() *Tracker {
	return &Tracker{servers: map[string]server{}, watched: map[watch]answer{}, waiting: map[watch]struct{}{}, queues: map[Kind]queue{}}
}

// State returns the state of the record with the given resource version. The object is reconciled
// again when that state changes.
func (t *Tracker) State(kind Kind, object reconcile.Request, version string) State {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := watch{kind, object}
	current := t.answer(w, version)
	t.setAnswer(w, current)
	return current.state
}

// Undecrypted returns the names of the live token servers that haven't decrypted the next signing key of
// a Realm, sorted. The Realm is reconciled again when they change, if its State was requested before.
func (t *Tracker) Undecrypted(realm string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.undecrypted(realm)
}

// Forget stops watching an object that has no record.
func (t *Tracker) Forget(kind Kind, object reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watched, watch{kind, object})
	delete(t.waiting, watch{kind, object})
}

// Live returns the number of live token servers.
func (t *Tracker) Live() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.servers)
}

func (t *Tracker) state(version string) State {
	if len(t.servers) == 0 {
		return NoServer
	}
	for _, s := range t.servers {
		if !heartbeat.Reached(s.Version, version) {
			return Waiting
		}
	}
	return Acknowledged
}

func (t *Tracker) undecrypted(realm string) []string {
	var names []string
	for lease, s := range t.servers {
		if !s.Decrypted(realm) {
			// A server can write only the Lease of its name, so it can't report in the name of another.
			names = append(names, strings.TrimPrefix(lease, heartbeat.LeaseName("")))
		}
	}
	slices.Sort(names)
	return names
}

// answer returns the current state for an object.
func (t *Tracker) answer(w watch, version string) answer {
	a := answer{version: version, state: t.state(version)}
	if w.kind == Realm {
		a.undecrypted = strings.Join(t.undecrypted(w.request.Name), ",")
	}
	return a
}

// recordHeartbeat stores the heartbeat from the Lease with the given name.
func (t *Tracker) recordHeartbeat(lease string, h heartbeat.Heartbeat, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, live := t.servers[lease]
	if live && known.Version == h.Version && known.Renewed.Equal(h.Renewed) {
		return
	}
	t.servers[lease] = server{h, now}
	switch {
	case !live || !heartbeat.Reached(h.Version, known.Version) || !slices.Equal(h.Undecrypted, known.Undecrypted):
		enqueueChanged(t, t.watched)
	case known.Version != h.Version:
		enqueueChanged(t, t.waiting)
	}
}

// removeServer removes the server whose Lease was deleted.
func (t *Tracker) removeServer(lease string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, live := t.servers[lease]; live {
		delete(t.servers, lease)
		enqueueChanged(t, t.watched)
	}
}

// stale reports whether a Lease has not changed for longer than heartbeat.Duration. For a Lease
// that doesn't belong to a known server, stale uses the Lease's own renew time. A Lease without a
// renew time does not belong to a token server and is never stale.
func (t *Tracker) stale(lease *coordinationv1.Lease, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, live := t.servers[lease.Name]; live {
		return now.Sub(s.observed) > heartbeat.Duration
	}
	renewed := lease.Spec.RenewTime
	return renewed != nil && now.Sub(renewed.Time) > heartbeat.Duration
}

// extendDeadline keeps a stale server live for another period, because the API server may be
// unavailable.
func (t *Tracker) extendDeadline(lease string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, live := t.servers[lease]; live {
		s.observed = now
		t.servers[lease] = s
	}
}

// setAnswer stores the state that was returned for an object.
func (t *Tracker) setAnswer(w watch, a answer) {
	t.watched[w] = a
	if a.state == Waiting {
		t.waiting[w] = struct{}{}
	} else {
		delete(t.waiting, w)
	}
}

// enqueueChanged enqueues the given objects whose state has changed.
func enqueueChanged[V any](t *Tracker, objects map[watch]V) {
	for w := range objects {
		known := t.watched[w]
		current := t.answer(w, known.version)
		if current == known {
			continue
		}
		t.setAnswer(w, current)
		if q := t.queues[w.kind]; q != nil {
			q.Add(w.request)
		}
	}
}
