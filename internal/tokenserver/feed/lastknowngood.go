package feed

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
)

// patience is how long an API server that doesn't fail has at the start before the last
// good records are served instead: many times what it takes to list them.
const patience = 30 * time.Second

// lastGood keeps the records that this server serves for the process after it, and has
// those of the process before it until the first load.
//
// A change is written here before the heartbeat tells of it. So the process after never
// serves less than what the operator was told is served.
type lastGood struct {
	log    *snapshot.Log // nil: none are kept
	before snapshot.Records
	errors prometheus.Counter
	logger *slog.Logger
}

func openLastGood(o Options) *lastGood {
	l := &lastGood{logger: o.Logger, errors: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "realmkeeper_snapshot_errors_total",
		Help: "Failures to keep the last good records in --snapshot-dir. After one, a restart can't serve without the API server until the records are listed again.",
	})}
	o.Metrics.MustRegister(l.errors)
	if o.SnapshotDir == "" {
		return l
	}
	var err error
	l.log, l.before, err = snapshot.Open(o.SnapshotDir)
	l.check(err)
	return l
}

// check tells of an error. None is a reason not to serve.
func (l *lastGood) check(err error) {
	if err != nil {
		l.errors.Inc()
		l.logger.Error("Last good records not kept, a restart needs the API server", "error", err)
	}
}

func (l *lastGood) write(secret *corev1.Secret) {
	if l.log != nil {
		l.check(l.log.Write(secret))
	}
}

func (l *lastGood) remove(secret *corev1.Secret) {
	if l.log != nil {
		l.check(l.log.Remove(secret))
	}
}

// replace keeps a new list, and of the records that can't be read what was kept before.
func (l *lastGood) replace(records snapshot.Records, unreadable map[string]error) {
	l.before = snapshot.Records{}
	if l.log == nil {
		return
	}
	keep := make(map[string]bool, len(unreadable))
	for name := range unreadable {
		keep[name] = true
	}
	l.check(l.log.Replace(records, keep))
}

// of returns what the process before had of the records of these names.
func (l *lastGood) of(names map[string]error) []*corev1.Secret {
	var found []*corev1.Secret
	for _, secret := range l.before.Secrets {
		if names[secret.Name] != nil {
			found = append(found, secret)
		}
	}
	return found
}

func (l *lastGood) close() {
	if l.log != nil {
		l.check(l.log.Close())
	}
}

// restore fills the registry with the last good records of the process before, once the
// API server has failed to give a list, or gives none in time. As long as it may, its word
// is waited for: it is the newer one.
func (f *Feed) restore(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.failed:
	case <-time.After(patience):
	}
	f.loading.Lock()
	defer f.loading.Unlock()
	before := f.lastGood.before
	if f.Registry.Loaded() || before.Version == "" {
		return
	}
	p := prepareAll(before.Secrets)
	f.Registry.Replace(p.realms, p.clients, func(string) bool { return false })
	f.progress.reach(before.Version, f.Now())
	f.lastGood.before = snapshot.Records{}
	f.Logger.Warn("API server not reached, serving the last good records",
		"realms", len(p.realms), "clients", len(p.clients), "resourceVersion", before.Version)
}
