// Package feed fills a token server's registry from the records in the cluster. It also reports to
// the operator which version of the records the token server serves.
package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/watchlist"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/usereport"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Options configures a Feed. All fields except SnapshotDir, Usage, MaxStaleness, and Keys are required.
type Options struct {
	Client    Client
	Namespace string // the records namespace
	Server    string // this server's name, unique among token servers
	Registry  *registry.Registry
	// SnapshotDir is an in-memory directory for the last known good records. After a restart, the
	// server serves them if the API server is unavailable. If empty, no records are saved.
	SnapshotDir string
	// Usage reports the last use of credentials. If nil, it is not reported.
	Usage *usereport.Recorder
	// MaxStaleness is the staleness of the records beyond which the server is not ready. If 0, it always is.
	MaxStaleness time.Duration
	// Keys decrypts sealed signing keys. If nil, realms with a sealed key issue no tokens.
	Keys    *keyencryption.Encrypter
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
}

// Feed lists and watches the records and updates the registry. Run starts it.
type Feed struct {
	Options
	progress  *progress
	monitor   *beacon.Monitor
	publisher *publisher
	saved     *snapshot.Log  // the records for the next process
	previous  snapshot.State // of the previous process's records; zero after the first load
	requests  *keyRequests
	keys      *keyring
	written   atomic.Pointer[time.Time] // when the last beacon that arrived was written, according to the operator

	failed  chan struct{} // receives a value after a failed request to the API server
	loading sync.Mutex    // held during a load from a list or from the last known good records

	mu         sync.Mutex
	unreadable map[string]bool    // names of the unreadable records, and of those with an unknown restriction
	expired    bool               // whether the next watch must start with a list
	endWatch   context.CancelFunc // ends the open watch; nil before the first one
}

// New returns a feed that is not running.
func New(o Options) *Feed {
	f := &Feed{
		Options: o, progress: newProgress(),
		failed: make(chan struct{}, 1), unreadable: map[string]bool{}, requests: &keyRequests{at: map[issuer]time.Time{}},
	}
	f.monitor = beacon.NewMonitor(beacon.Options{
		Read: f.readBeacon, List: f.listAgain, RolledBack: f.listAgain, Now: o.Now,
		Recovered: f.progress.notify, // The operator should know soon that this server is current again.
	})
	f.keys = newKeyring(o, f.progress.notify)
	f.publisher = newPublisher(o, f.progress, f.requests, f.keys, f.unreadableRecords, f.Staleness)
	f.openSnapshot()
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_registry_unreadable_records",
		Help: "Unreadable records, of which the server serves the last known good version, and records with a restriction that this version does not know, whose requests it rejects.",
	}, func() float64 {
		f.mu.Lock()
		defer f.mu.Unlock()
		return float64(len(f.unreadable))
	}))
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_registry_last_change_timestamp_seconds",
		Help: "Time at which this server last loaded a changed record or a list of all records; 0 before the first load.",
	}, func() float64 {
		if at := f.progress.lastChange(); !at.IsZero() {
			return float64(at.UnixMilli()) / 1000
		}
		return 0
	}))
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_records_staleness_seconds",
		Help: "How long ago the records were last known to be current; 0 while the API server delivers changes. While it is not 0, this server does not receive revocations and key rotations.",
	}, func() float64 { return f.Staleness().Seconds() }))
	return f
}

// Staleness returns how long ago the records were last known to be current, or 0 while the API
// server delivers changes. After a restart without the API server, it counts from when the previous
// process last knew that they were current.
func (f *Feed) Staleness() time.Duration { return f.monitor.Staleness() }

// Confirmed returns the time of the state that the records are known to have. It is the time at which the
// operator wrote the last beacon, so that it is the same at all token servers that changes reach. Without an
// operator, it follows the reads of the beacon. It never is in the future.
func (f *Feed) Confirmed() time.Time {
	confirmed := f.monitor.Current().Add(-beacon.Overdue)
	if written := f.written.Load(); written != nil && written.After(confirmed) {
		return *written
	}
	return confirmed
}

// arrived records when the beacon that arrives now was written. The operator's clock can be ahead.
func (f *Feed) arrived(written time.Time) {
	if now := f.Now(); written.After(now) {
		written = now
	}
	f.written.Store(&written)
}

// Run updates the registry and writes the heartbeat until ctx is done. It then deletes the saved records and
// the heartbeat, so that the operator doesn't wait for this server, unless the last use of credentials
// can't be reported. While the API server is unavailable, the registry does not change. If it is
// unavailable from the start, the registry is loaded with the previous process's last known good
// records.
func (f *Feed) Run(ctx context.Context) {
	records := f.Client.Secrets
	selector := func(o *metav1.ListOptions) { o.LabelSelector = record.Selector().String() }
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if err := f.join(ctx); err != nil {
				return nil, err
			}
			selector(&o)
			o.ResourceVersion = "" // A list from a cache of the API server can be older than what was reported.
			list, err := records.List(ctx, o)
			f.signalFailure(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			selector(&o)
			return f.watch(ctx, o)
		},
	}, records)
	logger := logr.FromSlogHandler(f.Logger.Handler())
	reflector := cache.NewReflectorWithOptions(source, &corev1.Secret{}, f, cache.ReflectorOptions{
		Name:   "records",
		Logger: &logger,
		// Resume a broken watch within seconds, so that revocations take effect soon.
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 4, Cap: 2 * time.Second},
	})
	var running sync.WaitGroup
	running.Go(func() { f.publisher.run(ctx) })
	running.Go(func() { f.loadSaved(ctx) })
	running.Go(func() { f.keys.run(ctx) })
	running.Go(func() { f.monitor.Run(ctx) })
	reflector.RunWithContext(ctx)
	running.Wait()
	// Without the Lease, the operator doesn't wait for this server, so the next process must not serve what
	// is saved.
	f.saved.Delete()
	f.publisher.remove(context.WithoutCancel(ctx))
}

// watch opens a watch of the records. One that starts with a list is consistent.
func (f *Feed) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	lists := o.SendInitialEvents != nil && *o.SendInitialEvents
	ctx, expired := f.beginWatch(ctx, lists)
	if expired {
		return nil, apierrors.NewResourceExpired("the watch delivered nothing")
	}
	if lists {
		if err := f.join(ctx); err != nil {
			return nil, err
		}
		o.ResourceVersion = ""
		f.saved.Begin()
	}
	events, err := watchlist.Open(ctx, "records", o, f.Client.Secrets.Watch)
	if err != nil {
		// An API error isn't an outage; it may just mean that a relist is needed.
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
			f.signalFailure(err)
		}
		return nil, err
	}
	context.AfterFunc(ctx, events.Stop)
	return events, nil
}

// join makes the operator count this server before the server lists the records for the first time.
func (f *Feed) join(ctx context.Context) error {
	err := f.publisher.join(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		f.Logger.Warn("Failed to write heartbeat Lease before listing the records, will retry", "error", err)
	}
	f.signalFailure(err)
	return err
}

// beginWatch returns a context for a new watch, and reports whether it must not resume the last one.
func (f *Feed) beginWatch(ctx context.Context, lists bool) (_ context.Context, expired bool) {
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.endWatch != nil {
		f.endWatch() // of the last watch, which has ended; its context would stay in memory
	}
	f.endWatch = cancel
	expired, f.expired = f.expired && !lists, false
	return ctx, expired
}

// listAgain ends the open watch, so that the reflector lists the records.
func (f *Feed) listAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expired = true
	if f.endWatch != nil {
		f.endWatch()
	}
}

// readBeacon returns the resource version of the beacon according to the API server, or an empty string if
// there is none.
func (f *Feed) readBeacon(ctx context.Context) (string, error) {
	secret, err := f.Client.Secrets.Get(ctx, beacon.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the beacon: %w", err)
	}
	return secret.ResourceVersion, nil
}

// signalFailure wakes loadSaved if err is not nil.
func (f *Feed) signalFailure(err error) {
	if err == nil {
		return
	}
	select {
	case f.failed <- struct{}{}:
	default:
	}
}

// Feed implements the reflector's store. The reflector delivers events in watch order, and a new
// list as a single change.
var (
	_ cache.ReflectorStore    = &Feed{}
	_ cache.TransformingStore = &Feed{}
)

// Add adds a new record.
func (f *Feed) Add(obj any) error { return f.Update(obj) }

// Update replaces a changed record. If the record is unreadable, the registry doesn't change.
func (f *Feed) Update(obj any) error {
	secret, err := asSecret(obj)
	if err != nil {
		return err
	}
	if secret.Name == beacon.Name {
		f.arrived(beacon.Read(secret).Time)
		f.monitor.Arrived(secret.ResourceVersion)
		f.saved.Confirm(f.monitor.Current())
		return nil
	}
	converted, err := prepare(secret)
	if err == nil {
		f.set(converted)
		f.saved.Write(secret)
		if _, ok := converted.(*registry.Realm); ok && f.keys.updatePlaintext() {
			f.saved.Compact()
		}
		if isUnenforced(converted) {
			err = errUnenforced
		}
	}
	f.setReadability(secret.Name, err) // after the registry has changed, because the heartbeat reports it
	f.reach(secret.ResourceVersion)
	return nil
}

// set adds a converted record to the registry.
func (f *Feed) set(converted any) {
	switch of := converted.(type) {
	case *registry.Realm:
		f.keys.track(of)
		f.Registry.SetRealm(of)
	case *registry.Client:
		f.Registry.SetClient(of)
	case *registry.Subject:
		f.Registry.SetSubject(of)
	case registry.Index:
		f.Registry.SetIndex(of)
	}
}

// replace replaces the contents of the registry, except for the records that are kept.
func (f *Feed) replace(loaded *prepared, keep func(name string) bool) {
	listed := make(map[string]bool, len(loaded.realms))
	for _, realm := range loaded.realms {
		listed[realm.Record] = true
		f.keys.track(realm)
	}
	f.keys.only(func(name string) bool { return listed[name] || keep(name) })
	f.keys.updatePlaintext() // the saved records are replaced, too
	f.Registry.Replace(loaded.realms, loaded.clients, loaded.subjects, loaded.indexes, keep)
}

// Delete removes a record.
func (f *Feed) Delete(obj any) error {
	secret, err := asSecret(obj)
	if err != nil {
		return err
	}
	if secret.Name == beacon.Name {
		f.monitor.Deleted()
		return nil
	}
	f.setReadability(secret.Name, nil)
	if index, err := prepareIndex(secret.Name); err == nil {
		f.Registry.RemoveIndex(index)
	} else {
		f.Registry.Remove(secret.Name)
	}
	f.keys.forget(secret.Name)
	f.saved.Remove(secret)
	f.reach(secret.ResourceVersion)
	return nil
}

// reach records that the registry serves all records up to version, as the API server delivered
// them.
func (f *Feed) reach(version string) { f.progress.reach(version, f.Now()) }

// Transformer returns the function that the reflector calls with each record of a new list when it
// arrives. It returns only the data of the record that Replace needs, so that all records are never
// in memory at the same time.
func (f *Feed) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		secret, err := asSecret(obj)
		if err != nil {
			return nil, err
		}
		return f.saveAndPrepare(secret), nil
	}
}

// saveAndPrepare saves a record of a new list and returns it in converted form. For an unchanged record,
// that is the existing entry of the registry. An unreadable record is not saved.
func (f *Feed) saveAndPrepare(secret *corev1.Secret) any {
	if secret.Name == beacon.Name {
		return listedBeacon{secret.ResourceVersion, beacon.Read(secret).Time}
	}
	converted := f.unchanged(secret)
	if converted == nil {
		var err error
		if converted, err = prepare(secret); err != nil {
			return unreadable{secret.Name, err}
		}
	}
	f.saved.Add(secret)
	return converted
}

// unchanged returns the client or subject that the registry has for this version of a record, or nil.
func (f *Feed) unchanged(secret *corev1.Secret) any {
	if client := f.Registry.ClientOf(secret.Name); client != nil && client.Version == secret.ResourceVersion {
		return client
	}
	if subject := f.Registry.SubjectOf(secret.Name); subject != nil && subject.Version == secret.ResourceVersion {
		return subject
	}
	return nil
}

// Replace replaces all records with a list at the given resource version. The list contains the
// results of Transformer, or the records themselves if the API server can't stream a list. If the first
// list took too long, it is discarded, and the reflector lists again, unless the server serves restored
// records, which are even older.
func (f *Feed) Replace(list []any, version string) error {
	f.loading.Lock()
	defer f.loading.Unlock()
	if !f.Registry.Loaded() && f.publisher.rejoinIfTooLate() {
		f.progress.reach(version, f.Now())
		return errTooLate
	}
	var now prepared
	for i, obj := range list {
		secret, ok := obj.(*corev1.Secret)
		if ok && i == 0 {
			f.saved.Begin()
		}
		if ok {
			obj = f.saveAndPrepare(secret)
		}
		now.add(obj)
	}
	if len(list) == 0 {
		f.saved.Begin()
	}
	loaded := now
	if !f.Registry.Loaded() && len(now.unreadable) > 0 {
		f.readSaved(now.isUnreadable, &loaded)
	}
	f.replace(&loaded, now.isUnreadable)
	f.markOnly(&now)
	f.previous = snapshot.State{}
	f.saved.Commit(now.listed(version))
	f.reach(version)
	f.arrived(now.beacon.written)
	f.monitor.Listed(now.beacon.version)
	f.Logger.Info("Loaded records", "realms", len(loaded.realms), "clients", len(loaded.clients), "subjects", len(loaded.subjects),
		"unreadable", len(now.unreadable), "resourceVersion", version)
	return nil
}

// Resync does nothing, because the registry is the only copy of the records.
func (f *Feed) Resync() error { return nil }

// setReadability records whether a record is readable and can be enforced, and logs the error otherwise.
func (f *Feed) setReadability(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.markLocked(name, err)
}

func (f *Feed) markOnly(p *prepared) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.unreadable)
	for name, err := range p.unreadable {
		f.markLocked(name, err)
	}
	for _, name := range p.unenforced {
		f.markLocked(name, errUnenforced)
	}
}

func (f *Feed) markLocked(name string, err error) {
	if err == nil {
		delete(f.unreadable, name)
		return
	}
	f.unreadable[name] = true
	if errors.Is(err, errUnenforced) {
		f.Logger.Error("Found unknown restriction in record, rejecting all requests of its Realm or ApiClient; upgrade the token servers", "record", name)
		return
	}
	f.Logger.Error("Skipped unreadable record, serving its last known good version", "record", name, "error", err)
}

// unreadableRecords returns the names of the unreadable records, and of those with an unknown restriction.
// The operator doesn't count either as served.
func (f *Feed) unreadableRecords() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.unreadable))
}

var (
	errNotASecret = errors.New("not a Secret")
	errUnenforced = errors.New("unknown restriction")
	errTooLate    = errors.New("loading the records took too long, listing them again")
)

func asSecret(obj any) (*corev1.Secret, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("reading a record: %w: %T", errNotASecret, obj)
	}
	return secret, nil
}
