// Package acknowledgement knows which token servers are live and up to which record each
// of them has come, and wakes the reconcilers whose objects that concerns.
package acknowledgement

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

// State says how far the live token servers are with a record.
type State int

const (
	// NoServer means that no token server is live.
	NoServer State = iota
	// Waiting means that at least one live token server doesn't yet serve the record.
	Waiting
	// Acknowledged means that every live token server serves it.
	Acknowledged
)

// Kind tells the objects of one controller from those of another.
type Kind string

// The kinds of object that have records.
const (
	Realm  Kind = "Realm"
	Client Kind = "ApiClient"
)

// Tracker holds the newest heartbeat of each live token server. It is safe for concurrent use.
type Tracker struct {
	mu      sync.Mutex
	servers map[string]server // by Lease name
	watched map[watch]answer
	// waiting are the watched objects whose answer is Waiting. While servers move on, only
	// theirs can change.
	waiting map[watch]struct{}
	queues  map[Kind]queue

	synced func() bool // set by Watch: all Leases that exist have been seen
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// server is a live token server. A server is live as long as its Lease exists; observed
// is this process's time of the last change of the Lease, so that no other clock counts.
type server struct {
	version  string
	renewed  time.Time
	observed time.Time
}

// watch names an object whose state somebody has asked for.
type watch struct {
	kind    Kind
	request reconcile.Request
}

type answer struct {
	version string
	state   State
}

// NewTracker returns a tracker that knows no server.
func NewTracker() *Tracker {
	return &Tracker{servers: map[string]server{}, watched: map[watch]answer{}, waiting: map[watch]struct{}{}, queues: map[Kind]queue{}}
}

// State says how far the live token servers are with version, the resource version of
// an object's record. The object is reconciled again when the answer changes.
func (t *Tracker) State(kind Kind, object reconcile.Request, version string) State {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.state(version)
	t.note(watch{kind, object}, answer{version, state})
	return state
}

// Forget ends the interest in an object that has no record.
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
		if !heartbeat.Reached(s.version, version) {
			return Waiting
		}
	}
	return Acknowledged
}

// beat takes a heartbeat as it stands in the Lease of that name.
func (t *Tracker) beat(lease string, h heartbeat.Heartbeat, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, live := t.servers[lease]
	if live && known.version == h.Version && known.renewed.Equal(h.Renewed) {
		return
	}
	t.servers[lease] = server{version: h.Version, renewed: h.Renewed, observed: now}
	switch {
	case !live || !heartbeat.Reached(h.Version, known.version):
		wake(t, t.watched)
	case known.version != h.Version:
		wake(t, t.waiting)
	}
}

// gone takes that the Lease of that name is no more.
func (t *Tracker) gone(lease string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, live := t.servers[lease]; live {
		delete(t.servers, lease)
		wake(t, t.watched)
	}
}

// silent reports whether a Lease has not changed for longer than a heartbeat holds. Of a
// Lease that the tracker doesn't know as a live server's its own time must tell, and one that was never
// renewed is no server's.
func (t *Tracker) silent(lease *coordinationv1.Lease, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, live := t.servers[lease.Name]; live {
		return now.Sub(s.observed) > heartbeat.Duration
	}
	renewed := lease.Spec.RenewTime
	return renewed != nil && now.Sub(renewed.Time) > heartbeat.Duration
}

// excuse gives a silent server another term: that its Lease did not change may be the
// API server's silence.
func (t *Tracker) excuse(lease string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, live := t.servers[lease]; live {
		s.observed = now
		t.servers[lease] = s
	}
}

// note keeps the answer that was given about an object.
func (t *Tracker) note(w watch, a answer) {
	t.watched[w] = a
	if a.state == Waiting {
		t.waiting[w] = struct{}{}
	} else {
		delete(t.waiting, w)
	}
}

// wake queues those of the objects for which the answer has changed.
func wake[V any](t *Tracker, objects map[watch]V) {
	for w := range objects {
		known := t.watched[w]
		state := t.state(known.version)
		if state == known.state {
			continue
		}
		t.note(w, answer{known.version, state})
		if q := t.queues[w.kind]; q != nil {
			q.Add(w.request)
		}
	}
}
