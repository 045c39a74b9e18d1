package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
)

// listTimeout is how long the feed waits at startup for a list request that neither succeeds nor
// fails. Listing normally takes a fraction of it.
const listTimeout = 30 * time.Second

// lastKnownGood saves the served records for the next process. Until the first load, these are the
// records of the previous process.
//
// A change is saved before the heartbeat reports it. The next process therefore never serves an
// older version than the one last reported to the operator.
type lastKnownGood struct {
	mu       sync.Mutex     // guards log
	log      *snapshot.Log  // if nil, no records are saved
	previous snapshot.State // zero after the first load
	errors   prometheus.Counter
	logger   *slog.Logger
}

func openLastKnownGood(o Options) *lastKnownGood {
	l := &lastKnownGood{logger: o.Logger, errors: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "realmkeeper_snapshot_errors_total",
		Help: "Failures to save the last known good records in --snapshot-dir. After a failure, a restarted server needs the API server until the next list of records is saved.",
	})}
	o.Metrics.MustRegister(l.errors)
	if o.SnapshotDir == "" {
		return l
	}
	var err error
	l.log, l.previous, err = snapshot.Open(o.SnapshotDir)
	l.check(err)
	return l
}

// check logs and counts an error. No error stops the server.
func (l *lastKnownGood) check(err error) {
	if err != nil {
		l.errors.Inc()
		l.logger.Error("Failed to save last known good records; a restarted server cannot serve until the API server is reachable", "error", err)
	}
}

func (l *lastKnownGood) write(secret *corev1.Secret) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log != nil {
		l.check(l.log.Write(secret))
	}
}

func (l *lastKnownGood) remove(secret *corev1.Secret) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log != nil {
		l.check(l.log.Remove(secret))
	}
}

// compact removes older versions of the records.
func (l *lastKnownGood) compact() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log != nil {
		l.check(l.log.Compact())
	}
}

// begin begins a new list of records.
func (l *lastKnownGood) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log != nil {
		l.log.Begin()
	}
}

// add adds a record to the new list.
func (l *lastKnownGood) add(secret *corev1.Secret) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log != nil {
		l.log.Add(secret)
	}
}

// commit saves the new list. For unreadable records, it keeps the saved versions.
func (l *lastKnownGood) commit(list *prepared, version string) {
	l.previous = snapshot.State{}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == nil {
		return
	}
	keep := make(map[string]bool, len(list.unreadable))
	for name := range list.unreadable {
		keep[name] = true
	}
	names := sync.OnceValue(list.names) // rarely needed
	l.check(l.log.Commit(snapshot.Listed{Version: version, Size: list.readable(), Contains: func(name string) bool { return names()[name] }, Keep: keep}))
}

// confirm saves that the records were current at the given time.
func (l *lastKnownGood) confirm(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log != nil {
		l.log.Confirm(at)
	}
}

// read adds the previous process's wanted records to p, except for unreadable ones. It reports
// whether it could read the snapshot.
func (l *lastKnownGood) read(wanted func(name string) bool, p *prepared) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == nil {
		return false
	}
	err := l.log.Read(wanted, func(secret *corev1.Secret) {
		if converted, err := prepare(secret); err == nil {
			p.add(converted)
		}
	})
	l.check(err)
	return err == nil
}

func (l *lastKnownGood) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log != nil {
		l.check(l.log.Close())
	}
}

// restore loads the previous process's last known good records into the registry. It first waits
// until a request to the API server has failed or listTimeout has passed, because a list from the
// API server would be newer.
func (f *Feed) restore(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.failed:
	case <-time.After(listTimeout):
	}
	f.loading.Lock()
	defer f.loading.Unlock()
	previous := f.lastKnownGood.previous
	if f.Registry.Loaded() || previous.Version == "" {
		return
	}
	var p prepared
	if !f.lastKnownGood.read(func(string) bool { return true }, &p) {
		return
	}
	f.replace(&p, func(string) bool { return false })
	f.contact.restore(previous.Current)
	f.progress.reach(previous.Version, f.Now())
	f.lastKnownGood.previous = snapshot.State{}
	f.Logger.Warn("API server unavailable, serving last known good records",
		"realms", len(p.realms), "clients", len(p.clients), "subjects", len(p.subjects), "resourceVersion", previous.Version, "current", previous.Current)
}
