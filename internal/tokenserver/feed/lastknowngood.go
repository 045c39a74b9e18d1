package feed

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
)

// listTimeout is how long the feed waits at startup for a list request that neither succeeds nor
// fails. Listing normally takes a fraction of it.
const listTimeout = 30 * time.Second

// lastKnownGood saves the served records for the next process. Until the first load, it also holds
// the records of the previous process.
//
// A change is saved before the heartbeat reports it. The next process therefore never serves an
// older version than the one last reported to the operator.
type lastKnownGood struct {
	log      *snapshot.Log // if nil, no records are saved
	previous snapshot.Records
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
	if l.log != nil {
		l.check(l.log.Write(secret))
	}
}

func (l *lastKnownGood) remove(secret *corev1.Secret) {
	if l.log != nil {
		l.check(l.log.Remove(secret))
	}
}

// replace saves a new list. For unreadable records, it keeps the saved versions.
func (l *lastKnownGood) replace(records snapshot.Records, unreadable map[string]error) {
	l.previous = snapshot.Records{}
	if l.log == nil {
		return
	}
	keep := make(map[string]bool, len(unreadable))
	for name := range unreadable {
		keep[name] = true
	}
	l.check(l.log.Replace(records, keep))
}

// confirm saves that the records were current at the given time.
func (l *lastKnownGood) confirm(at time.Time) {
	if l.log != nil {
		l.log.Confirm(at)
	}
}

// of returns the previous process's records with the given names.
func (l *lastKnownGood) of(names map[string]error) []*corev1.Secret {
	var found []*corev1.Secret
	for _, secret := range l.previous.Secrets {
		if names[secret.Name] != nil {
			found = append(found, secret)
		}
	}
	return found
}

func (l *lastKnownGood) close() {
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
	p := prepareAll(previous.Secrets)
	f.Registry.Replace(p.realms, p.clients, p.subjects, func(string) bool { return false })
	f.contact.restore(previous.Current)
	f.progress.reach(previous.Version, f.Now())
	f.lastKnownGood.previous = snapshot.Records{}
	f.Logger.Warn("API server unavailable, serving last known good records",
		"realms", len(p.realms), "clients", len(p.clients), "subjects", len(p.subjects), "resourceVersion", previous.Version, "current", previous.Current)
}
