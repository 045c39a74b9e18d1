package feed

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
)

// listTimeout is how long the feed waits at startup for a list request that neither succeeds nor
// fails. Listing normally takes a fraction of it.
const listTimeout = 30 * time.Second

// openSnapshot opens the records of the previous process. The feed saves a change before the heartbeat
// reports it, so the next process never serves an older version than the one last reported to the
// operator.
func (f *Feed) openSnapshot() {
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "realmkeeper_snapshot_errors_total",
		Help: "Failures to save the last known good records in --snapshot-dir. After a failure, a restarted server needs the API server until the next list of records is saved.",
	})
	f.Metrics.MustRegister(failures)
	f.saved, f.previous = snapshot.Open(f.SnapshotDir, func(err error) {
		failures.Inc()
		f.Logger.Error("Failed to save last known good records; a restarted server cannot serve until the API server is reachable", "error", err)
	})
}

// readSaved adds the wanted records of the snapshot to p, except for unreadable ones. It reports
// whether it could read the snapshot.
func (f *Feed) readSaved(wanted func(name string) bool, p *prepared) bool {
	return f.saved.Read(wanted, func(secret *corev1.Secret) {
		if converted, err := prepare(secret); err == nil {
			p.add(converted)
		}
	})
}

// loadSaved loads the previous process's last known good records into the registry. It first waits
// until a request to the API server has failed or listTimeout has passed, because a list from the
// API server would be newer.
func (f *Feed) loadSaved(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.failed:
	case <-time.After(listTimeout):
	}
	f.loading.Lock()
	defer f.loading.Unlock()
	previous := f.previous
	if f.Registry.Loaded() || previous.Version == "" {
		return
	}
	var p prepared
	if !f.readSaved(func(string) bool { return true }, &p) {
		return
	}
	f.replace(&p, func(string) bool { return false })
	f.monitor.Restore(previous.Current)
	f.previous = snapshot.State{}
	f.Logger.Warn("API server unavailable, serving last known good records",
		"realms", len(p.realms), "clients", len(p.clients), "subjects", len(p.subjects), "resourceVersion", previous.Version, "current", previous.Current)
}
