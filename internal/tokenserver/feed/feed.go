// Package feed keeps a token server's registry at what the records in the
// cluster say, and tells the operator how far it has come.
package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Options are what a feed stands on. All are required but SnapshotDir.
type Options struct {
	Client    kubernetes.Interface
	Namespace string // the system namespace
	Server    string // this server's identity, unique among token servers
	Registry  *registry.Registry
	// SnapshotDir is a directory in memory for the last good records, so that a restart
	// finds them while the API server is away; empty for none.
	SnapshotDir string
	Logger      *slog.Logger
	Metrics     prometheus.Registerer
	Now         func() time.Time
}

// Feed lists and watches the records and puts them into the registry. Run starts it.
type Feed struct {
	Options
	progress  *progress
	heartbeat *publisher
	lastGood  *lastGood

	failed  chan struct{} // holds one token once the API server has failed to give a list
	loading sync.Mutex    // held while the registry is filled, from a list or from the last good records

	mu         sync.Mutex
	unreadable map[string]bool // names of records that can't be read now
}

// New returns a feed that does not run yet.
func New(o Options) *Feed {
	f := &Feed{Options: o, progress: newProgress(), failed: make(chan struct{}, 1), unreadable: map[string]bool{}}
	f.heartbeat = newPublisher(o, f.progress)
	f.lastGood = openLastGood(o)
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_registry_unreadable_records",
		Help: "Records that can't be read. Their last good state is served; the status of the Realm or ApiClient says what to do.",
	}, func() float64 {
		f.mu.Lock()
		defer f.mu.Unlock()
		return float64(len(f.unreadable))
	}))
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_registry_last_change_timestamp_seconds",
		Help: "When this server last took up a change of a record, or a new list of all; 0 before the first.",
	}, func() float64 {
		if at := f.progress.lastChange(); !at.IsZero() {
			return float64(at.UnixMilli()) / 1000
		}
		return 0
	}))
	return f
}

// Run feeds the registry and keeps the heartbeat until ctx ends; then it removes the
// heartbeat, so that the operator doesn't wait for this server. While the API server
// can't be reached the registry stays as it is; when it can't be reached from the start,
// the registry gets the last good records of the process before.
func (f *Feed) Run(ctx context.Context) {
	records := f.Client.CoreV1().Secrets(f.Namespace)
	selector := func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.RecordLabel }
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			selector(&o)
			list, err := records.List(ctx, o)
			f.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			selector(&o)
			events, err := records.Watch(ctx, o)
			if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
				f.note(err) // what an API server answers to a watch may be that it wants a list
			}
			return events, err
		},
	}, f.Client)
	logger := logr.FromSlogHandler(f.Logger.Handler())
	reflector := cache.NewReflectorWithOptions(source, &corev1.Secret{}, f, cache.ReflectorOptions{
		Name:   "records",
		Logger: &logger,
		// A watch that broke is resumed within seconds: what was revoked meanwhile counts.
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5, Cap: 3 * time.Second},
	})
	var running sync.WaitGroup
	running.Go(func() { f.heartbeat.run(ctx) })
	running.Go(func() { f.restore(ctx) })
	reflector.RunWithContext(ctx)
	running.Wait()
	f.lastGood.close()
}

// note tells restore of a failure.
func (f *Feed) note(err error) {
	if err == nil {
		return
	}
	select {
	case f.failed <- struct{}{}:
	default:
	}
}

// Add, Update, Delete, Replace and Resync make Feed the store of its reflector: it
// takes events in the order of the watch, and a new list as one change.
var _ cache.ReflectorStore = &Feed{}

// Add takes a new record.
func (f *Feed) Add(obj any) error { return f.Update(obj) }

// Update takes a changed record. One that can't be read changes nothing in the registry.
func (f *Feed) Update(obj any) error {
	secret, err := asSecret(obj)
	if err != nil {
		return err
	}
	realm, client, err := prepare(secret)
	f.mark(secret.Name, err)
	switch {
	case realm != nil:
		f.Registry.SetRealm(realm)
	case client != nil:
		f.Registry.SetClient(client)
	}
	if err == nil {
		f.lastGood.write(secret)
	}
	f.progress.reach(secret.ResourceVersion, f.Now())
	return nil
}

// Delete takes that a record is gone.
func (f *Feed) Delete(obj any) error {
	secret, err := asSecret(obj)
	if err != nil {
		return err
	}
	f.mark(secret.Name, nil)
	uid := string(record.OwnerUID(secret))
	f.Registry.RemoveRealm(uid)
	f.Registry.RemoveClient(uid)
	f.lastGood.remove(secret)
	f.progress.reach(secret.ResourceVersion, f.Now())
	return nil
}

// Replace takes a new list, as of a resource version.
func (f *Feed) Replace(list []any, version string) error {
	f.loading.Lock()
	defer f.loading.Unlock()
	secrets := make([]*corev1.Secret, 0, len(list))
	for _, obj := range list {
		secret, err := asSecret(obj)
		if err != nil {
			return err
		}
		secrets = append(secrets, secret)
	}
	now := prepareAll(secrets)
	if !f.Registry.Loaded() {
		now.add(prepareAll(f.lastGood.of(now.unreadable)))
	}
	f.Registry.Replace(now.realms, now.clients, func(uid string) bool { return now.kept[uid] })
	f.markOnly(now.unreadable)
	f.lastGood.replace(snapshot.Records{Secrets: now.readable, Version: version}, now.unreadable)
	f.progress.reach(version, f.Now())
	f.Logger.Info("Records loaded", "realms", len(now.realms), "clients", len(now.clients),
		"unreadable", len(now.unreadable), "resourceVersion", version)
	return nil
}

// Resync has nothing to do: the registry is all that there is.
func (f *Feed) Resync() error { return nil }

// mark notes whether the record of that name could be read, and logs one that couldn't.
func (f *Feed) mark(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.markLocked(name, err)
}

func (f *Feed) markOnly(unreadable map[string]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.unreadable)
	for name, err := range unreadable {
		f.markLocked(name, err)
	}
}

func (f *Feed) markLocked(name string, err error) {
	if err == nil {
		delete(f.unreadable, name)
		return
	}
	f.unreadable[name] = true
	f.Logger.Error("Record skipped, its last good state is served", "record", name, "error", err)
}

var errNotASecret = errors.New("not a Secret")

func asSecret(obj any) (*corev1.Secret, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("taking a record: %w: %T", errNotASecret, obj)
	}
	return secret, nil
}
