// Package acknowledgement tracks the token servers and the records that each one serves. It triggers a
// reconcile of every object whose state changes.
//
// A server counts from its first heartbeat with a version until the leader marks its Lease as dead, which
// it does only in the Lease itself and only if the Lease has not changed: see Members. A server that joins
// has written its Lease before it lists the records. Confirm therefore knows each server that may have
// listed an older version of a record.
package acknowledgement

import (
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
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

// Record is a record, and the resource version from which on acknowledgements of it count.
type Record struct {
	Name, Version string
	// PendingKeyOf is the name of the Realm if a server must also have decrypted its Pending signing key.
	PendingKeyOf string
}

// Tracker holds the latest heartbeat of each token server. It is safe for concurrent use.
type Tracker struct {
	// These don't change once the manager has started. Watch sets synced, and ServersSource observer.
	api       client.Reader // not a cache
	namespace string
	now       func() time.Time
	synced    func() bool // true after all existing Leases were processed
	changed   map[Kind]*queue.Source
	// serversChanged triggers observer when the state of a server may have changed.
	serversChanged queue.Source
	observer       reconcile.Request

	// Who holds mu owns all fields below: the handler of the informer, a controller, or Members.
	mu      sync.Mutex
	servers map[string]server // by Lease name
	watched map[watch]watched
	// waiting contains the watched objects whose last state was Waiting. When a server loads newer
	// records, only these objects' states can change.
	waiting map[watch]struct{}
	// arrived is the latest resource version of the operator's own Lease that the watch has delivered.
	arrived string
	// newest is the newest version of a record that was requested with Follow.
	newest string
}

// server is a token server with a Lease. The heartbeat is empty if the Lease is invalid.
type server struct {
	heartbeat.Heartbeat
	uid      types.UID
	revision string // resource version of the Lease
	// mark is the mark of a dead server with this Lease; empty if the Lease is invalid.
	mark string
	// observed is when the Lease last changed according to this process's clock, so other machines' clocks
	// don't matter.
	observed time.Time
	lag
}

// counts reports whether the operator waits for the server. A server that has not loaded the records yet
// serves nothing.
func (s *server) counts() bool { return s.Version != "" && !s.Dead }

// watch identifies an object whose state has been requested.
type watch struct {
	kind    Kind
	request reconcile.Request
}

// watched is an object's records, and the answer that was last returned for them.
type watched struct {
	records []Record
	answer  answer
}

type answer struct {
	state State
	// undecrypted are the names of servers that haven't decrypted the Pending and the Active key. It is empty for
	// other objects than Realms.
	undecrypted string
}

// NewTracker returns a tracker for the Leases in namespace. live must not read from a cache.
func NewTracker(live client.Reader, namespace string, now func() time.Time) *Tracker {
	t := &Tracker{
		api: live, namespace: namespace, now: now,
		servers: map[string]server{}, watched: map[watch]watched{}, waiting: map[watch]struct{}{},
	}
	t.changed = map[Kind]*queue.Source{Realm: {Synced: t.Synced}, Client: {Synced: t.Synced}}
	return t
}

// Follow returns whether the token servers serve an object's records, and reconciles the object again when
// that changes. It reads a cache, so a step that can't be undone must wait for Confirm.
func (t *Tracker) Follow(kind Kind, object reconcile.Request, records ...Record) State {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		t.setNewest(r.Version)
	}
	w := watch{kind, object}
	current := t.answer(w, records)
	t.setAnswer(w, watched{records, current})
	return current.state
}

// Undecrypted returns the names of the live token servers that haven't decrypted the Pending signing key of
// a Realm, and of those that haven't decrypted the Active one, sorted. The Realm is reconciled again when
// they change, if Follow was called for it.
func (t *Tracker) Undecrypted(realm string) (pending, active []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.undecrypted(realm)
}

// State returns whether the token servers serve the given records, like Follow, and reconciles nothing.
func (t *Tracker) State(records ...Record) State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state(records)
}

// Forget stops watching an object that has no record.
func (t *Tracker) Forget(kind Kind, object reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watched, watch{kind, object})
	delete(t.waiting, watch{kind, object})
}

func (t *Tracker) state(records []Record) State {
	state := NoServer
	for _, s := range t.servers {
		switch {
		case !s.counts():
		case !serves(&s.Heartbeat, records):
			return Waiting
		default:
			state = Acknowledged
		}
	}
	return state
}

// serves reports whether a server serves all records.
func serves(h *heartbeat.Heartbeat, records []Record) bool {
	return !slices.ContainsFunc(records, func(r Record) bool {
		return !h.Serves(r.Name, r.Version) || r.PendingKeyOf != "" && !h.DecryptedPending(r.PendingKeyOf)
	})
}

func (t *Tracker) undecrypted(realm string) (pending, active []string) {
	for lease, s := range t.servers {
		if s.counts() && !s.DecryptedPending(realm) {
			pending = append(pending, serverOf(lease))
		}
		if s.counts() && !s.DecryptedActive(realm) {
			active = append(active, serverOf(lease))
		}
	}
	slices.Sort(pending)
	slices.Sort(active)
	return pending, active
}

// serverOf returns the name of the server with a Lease, which is that of its Pod. A server can write only
// the Lease of its name, so it can't report in the name of another.
func serverOf(lease string) string { return strings.TrimPrefix(lease, heartbeat.LeaseName("")) }

// answer returns the current answer for an object.
func (t *Tracker) answer(w watch, records []Record) answer {
	a := answer{state: t.state(records)}
	if w.kind == Realm {
		pending, active := t.undecrypted(w.request.Name)
		a.undecrypted = strings.Join(pending, ",") + "/" + strings.Join(active, ",")
	}
	return a
}

// setLease stores the heartbeat in a Lease.
func (t *Tracker) setLease(lease *coordinationv1.Lease) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.servers[lease.Name]
	if known.uid == lease.UID && known.revision == lease.ResourceVersion {
		return
	}
	current := server{uid: lease.UID, revision: lease.ResourceVersion, observed: now}
	if received, err := heartbeat.Parse(lease); err == nil {
		current.Heartbeat, current.mark = received, heartbeat.DeadMark(lease)
	}
	current.lag = known.catchUp(&current.Heartbeat, t.newest, now)
	t.servers[lease.Name] = current
	if known.uid != current.uid || looksDifferent(&known, &current) {
		t.serversChanged.Enqueue(t.observer)
	}
	switch {
	case known.counts() != current.counts(), !slices.Equal(known.UndecryptedPending, current.UndecryptedPending),
		!slices.Equal(known.UndecryptedActive, current.UndecryptedActive), !slices.Equal(known.Unreadable, current.Unreadable):
		enqueueChanged(t, t.watched)
	case known.Version == current.Version:
	case heartbeat.Reached(current.Version, known.Version):
		enqueueChanged(t, t.waiting)
	default:
		enqueueChanged(t, t.watched)
	}
}

// removeServer removes the server whose Lease was deleted.
func (t *Tracker) removeServer(lease string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.servers[lease]
	delete(t.servers, lease)
	t.serversChanged.Enqueue(t.observer)
	if known.counts() {
		enqueueChanged(t, t.watched)
	}
}

// setAnswer stores the answer that was returned for an object.
func (t *Tracker) setAnswer(w watch, answered watched) {
	t.watched[w] = answered
	if answered.answer.state == Waiting {
		t.waiting[w] = struct{}{}
	} else {
		delete(t.waiting, w)
	}
}

// enqueueChanged enqueues the given objects whose answer has changed.
func enqueueChanged[V any](t *Tracker, objects map[watch]V) {
	for w := range objects {
		known := t.watched[w]
		current := t.answer(w, known.records)
		if current == known.answer {
			continue
		}
		t.setAnswer(w, watched{known.records, current})
		t.changed[w.kind].Enqueue(w.request)
	}
}
