package acknowledgement_test

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
)

const namespace, system = "records", "system"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a tracker with a Lease handler, the queues of two controllers and a clock.
type fixture struct {
	tracker *acknowledgement.Tracker
	leases  toolscache.ResourceEventHandler
	queues  map[acknowledgement.Kind]workqueue.TypedRateLimitingInterface[reconcile.Request]
	now     time.Time
	writes  atomic.Int64 // of Leases
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		now: start, queues: map[acknowledgement.Kind]workqueue.TypedRateLimitingInterface[reconcile.Request]{},
	}
	f.tracker = acknowledgement.NewTracker(nil, namespace, func() time.Time { return f.now })
	f.leases = f.tracker.Handler()
	for _, kind := range []acknowledgement.Kind{acknowledgement.Realm, acknowledgement.Client} {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queue.ShutDown)
		f.queues[kind] = queue
		testkit.Do(t, f.tracker.Source(kind).Start(t.Context(), queue))
	}
	return f
}

// lease returns the Lease of a server that serves records up to version. It is renewed now.
func (f *fixture) lease(server, version string) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(f.now)
	write := f.writes.Add(1)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: heartbeat.LeaseName(server), UID: types.UID("uid-" + server), ResourceVersion: strconv.FormatInt(write, 10),
			Labels:      map[string]string{heartbeat.Label: heartbeat.LabelValue},
			Annotations: map[string]string{heartbeat.LoadedAnnotation: version},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &server, RenewTime: &renewed},
	}
}

func (f *fixture) renew(server, version string) { f.leases.OnUpdate(nil, f.lease(server, version)) }

func (f *fixture) remove(server string) { f.leases.OnDelete(f.lease(server, "1")) }

func (f *fixture) state(object, version string) acknowledgement.State {
	return f.tracker.Follow(acknowledgement.Client, request(object), recorded(version))
}

func recorded(version string) acknowledgement.Record {
	return acknowledgement.Record{Name: "record", Version: version}
}

// dequeue empties a queue and returns the sorted names of the objects in it.
func (f *fixture) dequeue(kind acknowledgement.Kind) []string {
	var names []string
	for queue := f.queues[kind]; queue.Len() > 0; {
		r, _ := queue.Get()
		queue.Done(r)
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "apps", Name: name}}
}

func TestOnlyHeartbeatLeasesCount(t *testing.T) {
	f := newFixture(t)
	observer := &observer{}
	f.leases = f.tracker.Handler(observer)
	f.leases.OnAdd("not a Lease", false)
	f.leases.OnDelete("not a Lease")
	for _, change := range []func(*coordinationv1.Lease){
		func(l *coordinationv1.Lease) { l.Namespace = "other" },
		func(l *coordinationv1.Lease) { l.Labels = nil },
		func(l *coordinationv1.Lease) { l.Labels[heartbeat.Label] = heartbeat.OperatorLabelValue },
	} {
		other := f.lease("a", "100")
		change(other)
		f.leases.OnAdd(other, true)
	}
	if got := f.state("billing", "100"); got != acknowledgement.NoServer {
		t.Errorf("state %d, want %d", got, acknowledgement.NoServer)
	}
	old := f.lease("a", "100")
	f.now = f.now.Add(time.Hour)
	f.leases.OnAdd(old, true)
	if got := f.state("billing", "100"); got != acknowledgement.Acknowledged {
		t.Errorf("state with a valid Lease is %d, want %d", got, acknowledgement.Acknowledged)
	}
	f.leases.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "x", Obj: f.lease("a", "100")})
	if got := f.state("billing", "100"); got != acknowledgement.NoServer {
		t.Errorf("state after a missed deletion is %d, want %d", got, acknowledgement.NoServer)
	}
	testkit.Diff(t, "observed", []string{"set " + old.Name, "removed " + old.Name}, observer.events)
}

type observer struct{ events []string }

func (o *observer) SetLease(lease *coordinationv1.Lease) {
	o.events = append(o.events, "set "+lease.Name)
}

func (o *observer) RemoveLease(name string) { o.events = append(o.events, "removed "+name) }

// An object is Acknowledged if each server serves all of its records.
func TestStateOfSeveralRecords(t *testing.T) {
	records := []acknowledgement.Record{{Name: "client", Version: "100"}, {Name: "subject", Version: "90"}}
	tests := map[string]struct {
		version, unreadable string
		want                acknowledgement.State
	}{
		"one served":                {"95", "", acknowledgement.Waiting},
		"one unreadable":            {"100", "subject", acknowledgement.Waiting},
		"another record unreadable": {"100", "other", acknowledgement.Acknowledged},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			lease := f.lease("a", tc.version)
			lease.Annotations[heartbeat.UnreadableAnnotation] = tc.unreadable
			f.leases.OnAdd(lease, true)
			if got := f.tracker.Follow(acknowledgement.Client, request("billing"), records...); got != tc.want {
				t.Errorf("state %d, want %d", got, tc.want)
			}
		})
	}
}

func TestObjectIsEnqueuedOnlyWhenItsStateChanges(t *testing.T) {
	f := newFixture(t)
	expect := func(what string, want ...string) {
		t.Helper()
		testkit.Diff(t, what, want, f.dequeue(acknowledgement.Client))
	}
	f.state("ten", "10")
	f.state("twenty", "20")
	f.tracker.Follow(acknowledgement.Realm, request("realm"), recorded("10"))
	expect("no server")
	f.renew("a", "10")
	expect("first server", "ten", "twenty")
	if got := f.dequeue(acknowledgement.Realm); !slices.Equal(got, []string{"realm"}) {
		t.Errorf("Realm queue: %v, want [realm]", got)
	}
	f.now = f.now.Add(10 * time.Second)
	f.renew("a", "10")
	expect("renewed, same version")
	f.renew("a", "15")
	expect("newer version, still too old")
	f.renew("a", "20")
	expect("version reached for one object", "twenty")
	f.renew("b", "5")
	expect("new server behind both objects", "ten", "twenty")
	f.renew("b", "12")
	expect("new server current for one object", "ten")
	f.state("twenty", "11")
	f.renew("b", "30")
	expect("state was requested again in between")
	f.tracker.Forget(acknowledgement.Client, request("ten"))
	f.remove("a")
	expect("one of two current servers removed")
	f.remove("b")
	expect("last server removed, one object forgotten", "twenty")
	f.remove("b")
	expect("removed twice")
	f.renew("b", "30")
	expect("server returns", "twenty")
	f.renew("c", "")
	expect("server without a version joins")
	unreadable := f.lease("b", "31")
	unreadable.Annotations[heartbeat.UnreadableAnnotation] = "record"
	f.leases.OnUpdate(nil, unreadable)
	expect("unreadable record", "twenty")
	f.renew("b", "32")
	expect("readable record", "twenty")
	dead := f.lease("b", "32")
	dead.Annotations[heartbeat.DeadAnnotation] = heartbeat.DeadMark(dead)
	f.leases.OnUpdate(nil, dead)
	expect("the only server with a version is dead", "twenty")
	f.now = f.now.Add(time.Minute)
	f.renew("b", "32")
	expect("it renews its Lease", "twenty")
}

// A Realm is reconciled when the token servers change that haven't decrypted its next or its active key.
func TestUndecrypted(t *testing.T) {
	for annotation, undecrypted := range map[string]func(*acknowledgement.Tracker) []string{
		heartbeat.UndecryptedPendingAnnotation: func(t *acknowledgement.Tracker) []string { next, _ := t.Undecrypted("acme"); return next },
		heartbeat.UndecryptedActiveAnnotation:  func(t *acknowledgement.Tracker) []string { _, active := t.Undecrypted("acme"); return active },
	} {
		t.Run(annotation, func(t *testing.T) { testUndecrypted(t, annotation, undecrypted) })
	}
}

func testUndecrypted(t *testing.T, annotation string, undecrypted func(*acknowledgement.Tracker) []string) {
	t.Helper()
	f := newFixture(t)
	report := func(server string, realms string) {
		f.now = f.now.Add(10 * time.Second)
		lease := f.lease(server, "10")
		lease.Annotations[annotation] = realms
		f.leases.OnUpdate(nil, lease)
	}
	realm := reconcile.Request{NamespacedName: types.NamespacedName{Name: "acme"}}
	expect := func(what string, reconciled bool, servers ...string) {
		t.Helper()
		if got := len(f.dequeue(acknowledgement.Realm)) > 0; got != reconciled {
			t.Errorf("%s: the Realm is reconciled: %t", what, got)
		}
		testkit.Diff(t, what, servers, undecrypted(f.tracker))
		if got := f.tracker.Follow(acknowledgement.Realm, realm, recorded("10")); got != acknowledgement.Acknowledged {
			t.Errorf("%s: state %d", what, got)
		}
		if names := f.dequeue(acknowledgement.Client); len(names) > 0 {
			t.Errorf("%s: clients %v are reconciled", what, names)
		}
	}
	report("a", "")
	report("b", "acme")
	f.state("billing", "10")
	expect("first request", false, "b")
	report("b", "acme,shop")
	expect("another realm", false, "b")
	report("a", "*")
	expect("all realms of another server", true, "a", "b")
	report("b", "shop")
	expect("decrypted at one server", true, "a")
	f.remove("a")
	expect("the other server was removed", true)
}
