package feed_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

func TestMain(m *testing.M) {
	// The reflector reports each failure. The default handlers limit the rate with state that
	// outlives the clock of a bubble.
	utilruntime.ErrorHandlers = nil
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

var errDown = errors.New("connection reset")

// apiServer imitates the requests and watches of an API server that a feed uses. It has no records, and a
// beacon unless the operator is away from the start.
type apiServer struct {
	mu      sync.Mutex
	reads   error         // the response to lists, watches, and reads of the beacon
	watches error         // the response to lists and watches, if reads is nil
	writes  error         // the response to heartbeats
	silent  bool          // whether watches deliver nothing
	away    bool          // whether no operator changes the beacon
	beacon  string        // resource version of the beacon
	written time.Time     // when the beacon was written, according to the operator
	ahead   time.Duration // how much the operator's clock is ahead
	version int
	watch   *watch.RaceFreeFakeWatcher // the open watch
	lists   int
	beats   []beat
	// previous is the Lease that a previous process left, if any.
	previous *coordinationv1.Lease
}

// beat is a request that writes the heartbeat.
type beat struct {
	at       time.Time
	version  string
	requests []heartbeat.Refresh
	// next and active are the realms whose key in this state isn't decrypted, and unreadable the unreadable
	// records.
	next, active, unreadable []string
	// lists is the number of lists before this request.
	lists int
	// usageUntil is zero if the heartbeat has none.
	usageUntil time.Time
}

// start runs a feed until stop is called or the test ends.
func start(t *testing.T, api *apiServer, snapshotDir string) (f *feed.Feed, stop func()) {
	t.Helper()
	return startWith(t, api, feed.Options{SnapshotDir: snapshotDir})
}

// startWith is start with options.
func startWith(t *testing.T, api *apiServer, o feed.Options) (f *feed.Feed, stop func()) {
	t.Helper()
	o.Client, o.Namespace, o.Server, o.Now = clientOf(api.client()), "records", "a", time.Now
	o.Logger, o.Metrics = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	if o.Registry == nil {
		o.Registry = registry.New()
	}
	f = feed.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	running.Go(func() { api.changeBeacon(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	synctest.Wait()
	return f, stop
}

// kill stops a feed, and leaves its saved records as SIGKILL would.
func kill(t *testing.T, stop func(), snapshotDir string) {
	t.Helper()
	records := filepath.Join(snapshotDir, "records")
	linkErr := os.Link(records, records+".kept")
	stop()
	testkit.Do(t, errors.Join(linkErr, os.Rename(records+".kept", records)))
}

// listedSecrets makes the reflector list Secrets without streaming, which fake.Clientset does not support.
type listedSecrets struct{ typedcorev1.SecretInterface }

func (listedSecrets) IsWatchListSemanticsUnSupported() bool { return true }

func clientOf(api *fake.Clientset) feed.Client {
	return feed.Client{
		Secrets: listedSecrets{api.CoreV1().Secrets("records")}, Leases: api.CoordinationV1().Leases("records"), ConfigMaps: api.CoreV1().ConfigMaps("records"),
	}
}

func (a *apiServer) client() *fake.Clientset {
	client := fake.NewClientset()
	if a.previous != nil {
		if err := client.Tracker().Add(a.previous); err != nil {
			panic(err)
		}
	}
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err := cmp.Or(a.reads, a.watches); err != nil {
			return true, nil, err
		}
		a.lists++
		list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: a.next()}}
		if a.beacon != "" {
			list.Items = append(list.Items, *a.beaconSecret())
		}
		return true, list, nil
	})
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.reads == nil && a.beacon == "" {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, beacon.Name)
		}
		return true, a.beaconSecret(), a.reads
	})
	client.PrependWatchReactor("secrets", func(clienttesting.Action) (bool, watch.Interface, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err := cmp.Or(a.reads, a.watches); err != nil {
			return true, nil, err
		}
		a.watch = watch.NewRaceFreeFake()
		return true, a.watch, nil
	})
	client.PrependReactor("patch", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		lease := &coordinationv1.Lease{}
		if patch, ok := action.(clienttesting.PatchAction); ok {
			if err := json.Unmarshal(patch.GetPatch(), lease); err != nil {
				return true, nil, err
			}
		}
		parsed, err := heartbeat.Parse(lease)
		if err != nil {
			return true, nil, err
		}
		a.beats = append(a.beats, beat{
			at: time.Now(), version: parsed.Version, requests: heartbeat.ParseRefresh(lease), next: parsed.UndecryptedPending, active: parsed.UndecryptedActive, unreadable: parsed.Unreadable,
			usageUntil: parsed.UsageUntil, lists: a.lists,
		})
		return true, lease, a.writes
	})
	return client
}

// set changes the API server. If it ends the watch, the connection breaks.
func (a *apiServer) set(change func(*apiServer)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

// cut makes all requests fail and breaks the watch.
func (a *apiServer) cut() {
	a.set(func(a *apiServer) {
		a.reads, a.writes = errDown, errDown
		a.watch.Stop()
	})
}

// change delivers a changed record, which is unreadable, and returns its version.
func (a *apiServer) change() (version string) {
	return a.deliver(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "record"}})
}

// deliver delivers a changed record and returns its version.
func (a *apiServer) deliver(secret *corev1.Secret) (version string) {
	a.set(func(a *apiServer) {
		secret.ResourceVersion = a.next()
		version = secret.ResourceVersion
		a.watch.Modify(secret)
	})
	return version
}

// changeBeacon changes the beacon regularly, as the operator does.
func (a *apiServer) changeBeacon(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(beacon.Interval):
		}
		a.set(func(a *apiServer) {
			if a.away {
				return
			}
			a.beacon, a.written = a.next(), time.Now().Add(a.ahead)
			if a.watch != nil && !a.watch.IsStopped() && !a.silent {
				a.watch.Modify(a.beaconSecret())
			}
		})
	}
}

func (a *apiServer) beaconSecret() *corev1.Secret {
	written := beacon.Content{Time: a.written}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: beacon.Name, ResourceVersion: a.beacon, Labels: beacon.Labels()}, Data: written.Data()}
}

func (a *apiServer) listed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lists
}

func (a *apiServer) next() string {
	a.version++
	return strconv.Itoa(a.version)
}

// beatsSince returns the attempts to write the heartbeat since the given time.
func (a *apiServer) beatsSince(at time.Time) []beat {
	a.mu.Lock()
	defer a.mu.Unlock()
	var since []beat
	for _, b := range a.beats {
		if !b.at.Before(at) {
			since = append(since, b)
		}
	}
	return since
}
