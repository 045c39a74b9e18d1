package acknowledgement_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

const namespace = "realmkeeper-system"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a tracker with its Leases, two controllers and a clock.
type world struct {
	tracker *acknowledgement.Tracker
	leases  toolscache.ResourceEventHandler
	queues  map[acknowledgement.Kind]workqueue.TypedRateLimitingInterface[reconcile.Request]
	now     time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		tracker: acknowledgement.NewTracker(), now: start,
		queues: map[acknowledgement.Kind]workqueue.TypedRateLimitingInterface[reconcile.Request]{},
	}
	w.leases = w.tracker.Handler(namespace, func() time.Time { return w.now })
	for _, kind := range []acknowledgement.Kind{acknowledgement.Realm, acknowledgement.Client} {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queue.ShutDown)
		w.queues[kind] = queue
		if err := w.tracker.Source(kind).Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// beat is the Lease of a server that serves up to version, renewed now.
func (w *world) lease(server, version string) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(w.now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: heartbeat.LeaseName(server), UID: types.UID("uid-" + server), ResourceVersion: version,
			Labels:      map[string]string{heartbeat.Label: heartbeat.LabelValue},
			Annotations: map[string]string{heartbeat.LoadedAnnotation: version},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &server, RenewTime: &renewed},
	}
}

func (w *world) beat(server, version string) { w.leases.OnUpdate(nil, w.lease(server, version)) }

func (w *world) gone(server string) { w.leases.OnDelete(w.lease(server, "1")) }

func (w *world) state(object, version string) acknowledgement.State {
	return w.tracker.State(acknowledgement.Client, request(object), version)
}

// woken takes who is to be reconciled.
func (w *world) woken(kind acknowledgement.Kind) []string {
	var names []string
	for queue := w.queues[kind]; queue.Len() > 0; {
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

func TestState(t *testing.T) {
	tests := map[string]struct {
		servers map[string]string
		gone    []string
		want    acknowledgement.State
	}{
		"no server":                     {want: acknowledgement.NoServer},
		"one that is behind":            {servers: map[string]string{"a": "99"}, want: acknowledgement.Waiting},
		"one that is there":             {servers: map[string]string{"a": "100"}, want: acknowledgement.Acknowledged},
		"one that is past it":           {servers: map[string]string{"a": "1000"}, want: acknowledgement.Acknowledged},
		"all there":                     {servers: map[string]string{"a": "100", "b": "101"}, want: acknowledgement.Acknowledged},
		"one of two is behind":          {servers: map[string]string{"a": "100", "b": "9"}, want: acknowledgement.Waiting},
		"the one that was behind went":  {servers: map[string]string{"a": "100", "b": "9"}, gone: []string{"b"}, want: acknowledgement.Acknowledged},
		"the one that was there went":   {servers: map[string]string{"a": "100", "b": "9"}, gone: []string{"a"}, want: acknowledgement.Waiting},
		"all went":                      {servers: map[string]string{"a": "100"}, gone: []string{"a"}, want: acknowledgement.NoServer},
		"one went that was never there": {servers: map[string]string{"a": "100"}, gone: []string{"x"}, want: acknowledgement.Acknowledged},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for server, version := range tc.servers {
				w.beat(server, version)
			}
			for _, server := range tc.gone {
				w.gone(server)
			}
			if got := w.state("billing", "100"); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
			if got, want := w.tracker.Live(), len(tc.servers)-len(slices.DeleteFunc(tc.gone, func(s string) bool { return s == "x" })); got != want {
				t.Errorf("%d live servers, want %d", got, want)
			}
		})
	}
}

// Only Leases that are heartbeats of this instance count.
func TestForeignLeases(t *testing.T) {
	tests := map[string]func(*world, *coordinationv1.Lease){
		"another namespace":  func(_ *world, l *coordinationv1.Lease) { l.Namespace = "other" },
		"no label":           func(_ *world, l *coordinationv1.Lease) { l.Labels = nil },
		"another label":      func(_ *world, l *coordinationv1.Lease) { l.Labels[heartbeat.Label] = "operator" },
		"no holder":          func(_ *world, l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
		"no renew time":      func(_ *world, l *coordinationv1.Lease) { l.Spec.RenewTime = nil },
		"no version":         func(_ *world, l *coordinationv1.Lease) { l.Annotations = nil },
		"minutes without it": func(w *world, _ *coordinationv1.Lease) { w.now = w.now.Add(5*time.Minute + time.Second) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			lease := w.lease("a", "100")
			change(w, lease)
			w.leases.OnAdd(lease, true)
			if got := w.state("billing", "100"); got != acknowledgement.NoServer {
				t.Errorf("it counts: %d", got)
			}
		})
	}
	w := newWorld(t)
	w.leases.OnAdd("no Lease", false)
	w.leases.OnDelete("no Lease")
	w.leases.OnAdd(w.lease("a", "100"), true)
	if got := w.state("billing", "100"); got != acknowledgement.Acknowledged {
		t.Errorf("a good one doesn't count: %d", got)
	}
	w.leases.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "x", Obj: w.lease("a", "100")})
	if got := w.state("billing", "100"); got != acknowledgement.NoServer {
		t.Errorf("a Lease that went unseen counts: %d", got)
	}
}

// An object is reconciled when the answer that it got has changed, and only then.
func TestWakeUps(t *testing.T) {
	w := newWorld(t)
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.woken(acknowledgement.Client)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	w.state("ten", "10")
	w.state("twenty", "20")
	w.tracker.State(acknowledgement.Realm, request("realm"), "10")
	expect("nothing has happened")
	w.beat("a", "10")
	expect("the first server", "ten", "twenty")
	if got := w.woken(acknowledgement.Realm); !slices.Equal(got, []string{"realm"}) {
		t.Errorf("of the other controller: %v", got)
	}
	w.now = w.now.Add(10 * time.Second)
	w.beat("a", "10")
	expect("the same, renewed")
	w.beat("a", "15")
	expect("moved, but not far enough")
	w.beat("a", "20")
	expect("moved up to one of them", "twenty")
	w.beat("b", "5")
	expect("a new server that is behind both", "ten", "twenty")
	w.beat("b", "12")
	expect("it catches up with one", "ten")
	w.state("twenty", "11")
	w.beat("b", "30")
	expect("asked again in between, and answered")
	w.tracker.Forget(acknowledgement.Client, request("ten"))
	w.gone("a")
	expect("one of two that are there went")
	w.gone("b")
	expect("the last went; one is forgotten", "twenty")
	w.gone("b")
	expect("gone twice")
	w.beat("b", "30")
	expect("back", "twenty")
}

func TestConcurrentUse(t *testing.T) {
	w := newWorld(t)
	var running sync.WaitGroup
	for _, server := range []string{"a", "b", "c"} {
		running.Go(func() {
			for range 100 {
				w.beat(server, "10")
				w.state(server, "10")
				w.tracker.Live()
				w.gone(server)
				w.tracker.Forget(acknowledgement.Client, request(server))
			}
		})
	}
	running.Wait()
	if w.tracker.Live() != 0 {
		t.Errorf("%d live servers", w.tracker.Live())
	}
}

func TestVerdict(t *testing.T) {
	tests := map[acknowledgement.State]condition.Result{
		acknowledgement.NoServer:     {Status: "False", Reason: v1alpha1.ReasonNoTokenServer},
		acknowledgement.Waiting:      {Status: "Unknown", Reason: v1alpha1.ReasonProgressing},
		acknowledgement.Acknowledged: {Status: "True", Reason: v1alpha1.ReasonReady},
	}
	for state, want := range tests {
		got := state.Result()
		if got.Message == "" {
			t.Errorf("state %d has no message", state)
		}
		got.Message = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("state %d (-want +got):\n%s", state, diff)
		}
	}
}
