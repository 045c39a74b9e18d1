package operator

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
)

// beaconAPI is an API server with nothing but the beacon. Its requests fail while down is true. Like the real one,
// it creates a missing object even if a resource version is given.
type beaconAPI struct {
	client.Client

	down   atomic.Bool
	before func() // is called before the next write, if it is set

	mu       sync.Mutex
	revision int
	stored   *corev1.Secret // nil if there is no beacon
}

func (a *beaconAPI) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stored == nil {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	a.stored.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func (a *beaconAPI) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	secret := obj.(*corev1.Secret)
	return a.write(secret.Data, func(stored *corev1.Secret) error {
		if stored != nil {
			return apierrors.NewAlreadyExists(corev1.Resource("secrets"), secret.Name)
		}
		return nil
	}, func(version string) { secret.ResourceVersion = version })
}

func (a *beaconAPI) Apply(_ context.Context, desired runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	secret := desired.(*corev1ac.SecretApplyConfiguration)
	return a.write(secret.Data, func(stored *corev1.Secret) error {
		if secret.ResourceVersion != nil && stored != nil && stored.ResourceVersion != *secret.ResourceVersion {
			return apierrors.NewConflict(corev1.Resource("secrets"), *secret.Name, nil)
		}
		return nil
	}, func(version string) { secret.WithResourceVersion(version) })
}

// write stores data if check accepts what is stored, and passes the new resource version to written.
func (a *beaconAPI) write(data map[string][]byte, check func(stored *corev1.Secret) error, written func(version string)) error {
	if before := a.before; before != nil {
		a.before = nil
		before()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down.Load() {
		return errors.New("connection refused")
	}
	if err := check(a.stored); err != nil {
		return err
	}
	a.revision++
	version := strconv.Itoa(a.revision)
	written(version)
	a.stored = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Data: data}
	return nil
}

// rollBack restores an earlier beacon. As with "etcdutl snapshot restore --bump-revision", later writes have
// later revisions than those before.
func (a *beaconAPI) rollBack(to *corev1.Secret) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stored, a.revision = to, a.revision+1_000_000
}

func (a *beaconAPI) current() *corev1.Secret {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored
}

// The beacon says when the API server was rolled back, and keeps it over a change of the leader. Another
// leader in between is no rollback.
func TestBeaconSaysWhenRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, known := &beaconAPI{}, &rollbacks{now: time.Now}
		lead := func(known *rollbacks, d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return (&beaconWriter{client: api, live: api, namespace: "records", rollbacks: known}).Start(ctx)
		}
		rolledBackAt := func() time.Time { return beacon.Read(api.current()).RolledBackAt }
		if err := lead(known, time.Minute); err != nil || !rolledBackAt().IsZero() {
			t.Fatalf("%v, rolled back at %s before the rollback", err, rolledBackAt())
		}
		earlier := api.current()
		if err := errors.Join(lead(&rollbacks{now: time.Now}, time.Minute), lead(known, time.Minute)); err != nil || !rolledBackAt().IsZero() {
			t.Fatalf("%v, rolled back at %s after another leader", err, rolledBackAt())
		}
		api.rollBack(earlier)
		if err := lead(known, time.Minute); !errors.Is(err, errRolledBack) {
			t.Fatalf("%v after a rollback", err)
		}
		at := time.Now()
		if err := lead(known, time.Minute); err != nil || !rolledBackAt().Equal(at) {
			t.Errorf("%v, rolled back at %s, want %s", err, rolledBackAt(), at)
		}
		next := &rollbacks{now: time.Now}
		if err := lead(next, time.Minute); err != nil || !rolledBackAt().Equal(at) || !next.RolledBackAt().Equal(at) {
			t.Errorf("%v, rolled back at %s according to the beacon of the next leader, want %s", err, rolledBackAt(), at)
		}
		standby := &rollbacks{now: func() time.Time { return time.Now().Add(-time.Minute) }}
		standby.arrived("1", beacon.Content{})
		standby.found() // later than the leader
		if err := lead(standby, time.Minute); err != nil || !rolledBackAt().Equal(at) {
			t.Errorf("%v, rolled back at %s according to a standby that found the same rollback, want %s", err, rolledBackAt(), at)
		}
		standby = &rollbacks{now: time.Now}
		if standby.arrived("2", beacon.Content{Time: at.Add(-time.Minute)}) || !standby.arrived("1", beacon.Content{Time: at.Add(-time.Hour)}) {
			t.Error("a standby has found a rollback too early, or doesn't find it when an earlier beacon arrives")
		}
		if latest := api.current(); standby.arrived(latest.ResourceVersion, beacon.Read(latest)) || !standby.RolledBackAt().Equal(at) {
			t.Errorf("rolled back at %s according to a standby after the leader's beacon arrived, want %s", standby.RolledBackAt(), at)
		}
		if standby.found(); standby.arrived("1", beacon.Content{Time: at.Add(time.Second), RolledBackAt: at}) || !standby.RolledBackAt().Equal(time.Now()) {
			t.Errorf("rolled back at %s according to a standby after an earlier beacon arrived again, want %s", standby.RolledBackAt(), time.Now())
		}
		slow := &rollbacks{now: func() time.Time { return at.Add(-time.Hour) }}
		latest := api.current()
		slow.adopt(latest.ResourceVersion, beacon.Read(latest))
		if slow.found(); !slow.RolledBackAt().After(at) {
			t.Errorf("another rollback at %s according to a slow clock, want after %s", slow.RolledBackAt(), at)
		}
		api.rollBack(nil)
		if err := lead(next, time.Minute); err != nil {
			t.Errorf("%v after a user has deleted the beacon", err)
		}
	})
}

// A leader that saw no beacon doesn't overwrite the first one of the next leader, which says when the API server was
// rolled back.
func TestFirstBeaconOverwritesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &beaconAPI{}
		lead := func(known *rollbacks) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			testkit.Do(t, (&beaconWriter{client: api, live: api, namespace: "records", rollbacks: known}).Start(ctx))
		}
		former, next := &rollbacks{now: time.Now}, &rollbacks{now: time.Now}
		next.found()
		api.before = func() { lead(next) }
		lead(former)
		if got := beacon.Read(api.current()).RolledBackAt; !got.Equal(next.RolledBackAt()) || !former.RolledBackAt().Equal(got) {
			t.Errorf("the beacon says that the API server was rolled back at %s, and the former leader %s, want %s", got, former.RolledBackAt(), next.RolledBackAt())
		}
	})
}

// The operator starts over when a beacon arrives that is earlier than the one before it.
func TestEarlierBeaconStartsOver(t *testing.T) {
	r := &beaconReader{rollbacks: &rollbacks{now: time.Now}, monitor: beacon.NewMonitor(beacon.Options{Now: time.Now}), failed: make(chan error, 1)}
	for _, version := range []string{"9", "10", "10"} {
		r.arrived(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}})
	}
	if len(r.failed) != 0 {
		t.Fatal("starts over without a rollback")
	}
	for range 2 { // It doesn't wait until someone receives the error.
		r.arrived(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}})
		r.arrived(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8"}})
	}
	if len(r.failed) != 1 || !errors.Is(<-r.failed, errRolledBack) || r.rollbacks.RolledBackAt().IsZero() {
		t.Error("doesn't start over")
	}
}

// Everything is reconciled soon after an outage of any length, because a write has failed in each that lasts
// longer than the interval of the beacon.
func TestBeaconWriterNoticesEndOfOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, recoveries := &beaconAPI{}, atomic.Int64{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = (&beaconWriter{client: api, live: api, namespace: "records", rollbacks: &rollbacks{now: time.Now}, recovered: func() { recoveries.Add(1) }}).Start(ctx)
		}()
		for outages := range int64(2) {
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := recoveries.Load(); got != outages {
				t.Errorf("%d recoveries after %d outages", got, outages)
			}
			api.down.Store(true)
			time.Sleep(12 * time.Second)
			api.down.Store(false)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := recoveries.Load(); got != outages+1 {
				t.Errorf("%d recoveries 2 seconds after %d outages", got, outages+1)
			}
		}
	})
}

// The mapping contains every kind in the cache, and its list kind.
func TestMapper(t *testing.T) {
	mapper := testkit.Value(newMapper(nil, nil))(t)
	scheme := testkit.Value(Scheme())(t)
	clusterScoped := map[string]bool{"realms": true, "namespaces": true}
	for object := range cacheOptions(&config.Instance{}, nil, informers.New(t.Context()).NewInformer).ByObject {
		kind := testkit.Value(apiutil.GVKForObject(object, scheme))(t)
		for _, name := range []string{kind.Kind, kind.Kind + "List"} {
			mapping, err := mapper.RESTMapping(kind.GroupVersion().WithKind(name).GroupKind(), kind.Version)
			if err != nil {
				t.Error(err)
				continue
			}
			if root := mapping.Scope.Name() == meta.RESTScopeNameRoot; root != clusterScoped[mapping.Resource.Resource] {
				t.Errorf("%s is cluster-scoped: %t", mapping.Resource, root)
			}
		}
	}
}
