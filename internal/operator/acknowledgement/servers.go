package acknowledgement

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

// Server is a token server that has a Lease.
type Server struct {
	// Name is the name of the server's Pod.
	Name string
	// Heartbeat is the latest report. It is empty if the Lease is invalid.
	heartbeat.Heartbeat
	// Lagging is since when the server has not served a record that existed then, or has not decrypted an
	// active signing key; zero if neither is the case. After a restart of the operator, it is at the earliest
	// the time at which the operator saw the server for the first time.
	Lagging time.Time
}

// Servers returns all token servers that have a Lease, sorted by name.
func (t *Tracker) Servers() []Server {
	t.mu.Lock()
	defer t.mu.Unlock()
	servers := make([]Server, 0, len(t.servers))
	for lease, s := range t.servers {
		servers = append(servers, Server{Name: serverOf(lease), Heartbeat: s.Heartbeat, Lagging: s.lagging()})
	}
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	return servers
}

// ServersSource returns a source with one request, for an object of the given name, when what Servers returns
// has changed, except for times and versions of records.
func (t *Tracker) ServersSource(name string) source.SyncingSource {
	t.observer = reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
	t.serversChanged.Synced = t.Synced
	return &t.serversChanged
}

// lag is what a server has to catch up with.
type lag struct {
	// behind is since when the server has not reached the version target, which was the newest one then. Both
	// are zero if it has reached the newest version. A server that lags a little while records change all the
	// time reaches one target after the other.
	behind time.Time
	target string
	// undecrypted is since when the server has not decrypted all active keys; zero if it has.
	undecrypted time.Time
}

func (l lag) lagging() time.Time {
	if l.behind.IsZero() || !l.undecrypted.IsZero() && l.undecrypted.Before(l.behind) {
		return l.undecrypted
	}
	return l.behind
}

// catchUp updates the lag of a server that has reported h, when newest is the newest version of a record.
func (l lag) catchUp(h *heartbeat.Heartbeat, newest string, now time.Time) lag {
	switch {
	case newest == "", h.Version == "", heartbeat.Reached(h.Version, newest):
		l.behind, l.target = time.Time{}, ""
	case l.behind.IsZero(), heartbeat.Reached(h.Version, l.target):
		l.behind, l.target = now, newest
	}
	switch {
	case len(h.UndecryptedActive) == 0:
		l.undecrypted = time.Time{}
	case l.undecrypted.IsZero():
		l.undecrypted = now
	}
	return l
}

// setNewest notes that a record has a version.
func (t *Tracker) setNewest(version string) {
	if t.newest != "" && heartbeat.Reached(t.newest, version) {
		return
	}
	t.newest = version
	now := t.now()
	for lease, s := range t.servers {
		before := s.lagging()
		s.lag = s.catchUp(&s.Heartbeat, t.newest, now)
		t.servers[lease] = s
		if before.IsZero() != s.lagging().IsZero() {
			t.serversChanged.Enqueue(t.observer)
		}
	}
}

// looksDifferent reports whether two reports of a server differ in what Servers is used for.
func looksDifferent(a, b *server) bool {
	return a.counts() != b.counts() || a.Dead != b.Dead || a.mark == "" != (b.mark == "") || a.Software != b.Software ||
		a.lagging().IsZero() != b.lagging().IsZero() || !slices.Equal(a.Unreadable, b.Unreadable) || !slices.Equal(a.UndecryptedActive, b.UndecryptedActive)
}
