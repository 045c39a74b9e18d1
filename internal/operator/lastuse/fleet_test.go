package lastuse_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/usage"
)

// quietTime is the time without use after which a credential is revoked. Its owner never pauses for
// longer than longestPause, which is shorter.
const (
	quietTime    = 24 * time.Hour
	longestPause = quietTime - 10*time.Minute
	staleLease   = 30 * time.Second
)

// fleet models an API server, token servers, and a store whose watches lag. The store and the token
// servers can be killed at any time.
type fleet struct {
	t       *rapid.T
	store   *lastuse.Store
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	now     time.Time
	api     *objects
	leases  map[string]*coordinationv1.Lease
	renewed map[string]time.Time // when a Lease was last renewed
	client  *v1alpha1.ApiClient  // in the API server
	cached  *v1alpha1.ApiClient  // as the operator has seen it
	seen    map[string]client.Object
	servers []*runningServer
	started int
	lastUse time.Time
	step    func()
}

type runningServer struct {
	name    string
	pending time.Time // zero if everything is reported
	last    time.Time
	cutOff  bool // whether it can't reach the API server; workloads can still use it
}

func (f *fleet) start(name string) {
	if name == "" {
		f.started++
		name = "server-" + strconv.Itoa(f.started)
	}
	if len(f.servers) == 0 {
		f.lastUse = f.now // the owner had no server to use the credential with
	}
	s := &runningServer{name: name}
	if f.leases[heartbeat.LeaseName(name)] != nil {
		f.report(s, func(r *usage.Report) { r.Lost = f.now })
	}
	f.servers = append(f.servers, s)
	f.beat(s)
}

// report changes the server's ConfigMap as a token server does.
func (f *fleet) report(s *runningServer, change func(*usage.Report)) {
	r := &usage.Report{Server: s.name}
	if existing := f.api.configMaps[usage.Name(s.name, 0)]; existing != nil {
		var err error
		if r, err = usage.Parse(existing); err != nil {
			f.t.Fatal(err)
		}
	}
	change(r)
	data, err := r.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	f.api.put(usage.ConfigMap(namespace, s.name, 0, data))
}

func (f *fleet) publish(s *runningServer) {
	if s.cutOff {
		return
	}
	if !s.pending.IsZero() {
		f.report(s, func(r *usage.Report) { r.Add(f.client.UID, secret("old"), s.pending) })
		s.pending = time.Time{}
	}
	f.beat(s)
}

// beat writes the server's Lease.
func (f *fleet) beat(s *runningServer) {
	if s.cutOff {
		return
	}
	name := heartbeat.LeaseName(s.name)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(f.now), Labels: map[string]string{heartbeat.Label: heartbeat.LabelValue},
			Annotations: map[string]string{
				heartbeat.LoadedAnnotation: "1", heartbeat.UsageAnnotation: f.now.Format(time.RFC3339), heartbeat.ResolutionAnnotation: resolution.String(),
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(s.name), RenewTime: new(metav1.NewMicroTime(f.now))},
	}
	if before := f.leases[name]; before != nil {
		lease.CreationTimestamp = before.CreationTimestamp
		if !s.pending.IsZero() {
			lease.Annotations[heartbeat.UsageAnnotation] = before.Annotations[heartbeat.UsageAnnotation]
		}
	}
	f.leases[name], f.renewed[name] = lease, f.now
}

func (f *fleet) stop(s *runningServer, clean bool) {
	if clean && !s.cutOff {
		f.publish(s)
		delete(f.leases, heartbeat.LeaseName(s.name))
	}
	f.servers = slices.DeleteFunc(f.servers, func(other *runningServer) bool { return other == s })
}

func (f *fleet) use(s *runningServer) {
	f.lastUse = f.now
	if period := usage.Truncate(f.now, resolution); !period.Equal(s.last) {
		s.pending, s.last = period, period
	}
}

// advance lets time pass. The owner uses the credential at least every longestPause, and live
// servers renew their Leases.
func (f *fleet) advance(d time.Duration) {
	until := f.now.Add(d)
	for next := f.lastUse.Add(longestPause); len(f.servers) > 0 && next.Before(until); next = f.lastUse.Add(longestPause) {
		if f.now.Before(next) {
			f.now = next
		}
		f.use(rapid.SampledFrom(f.servers).Draw(f.t, "used server"))
	}
	f.now = until
	for _, s := range f.servers {
		if s.cutOff {
			continue
		}
		f.renewed[heartbeat.LeaseName(s.name)] = f.now
		f.leases[heartbeat.LeaseName(s.name)].Spec.RenewTime = new(metav1.NewMicroTime(f.now))
	}
}

// restart replaces the operator. The caches of the new one are filled first.
func (f *fleet) restart() {
	f.store = lastuse.New(namespace, resolution, func() time.Time { return f.now }, func(metrics.RejectionReason) {})
	if err := f.store.Grants.Start(context.Background(), f.queue); err != nil {
		f.t.Fatal(err)
	}
	f.seen = map[string]client.Object{}
	f.watch(true, true, true)
}

// watch updates caches.
func (f *fleet) watch(leases, reports, status bool) {
	current := map[string]client.Object{}
	if leases {
		for name, lease := range f.leases {
			current["lease/"+name] = lease.DeepCopy()
		}
	}
	if reports {
		for name, object := range f.api.configMaps {
			current["report/"+name] = object.DeepCopy()
		}
	}
	for name, object := range current {
		f.store.Observe(object)
		f.seen[name] = object
	}
	for name, object := range f.seen {
		_, isLease := object.(*coordinationv1.Lease)
		if current[name] == nil && (isLease && leases || !isLease && reports) {
			f.store.Remove(object)
			delete(f.seen, name)
		}
	}
	if status {
		f.cached = f.client.DeepCopy()
		f.store.Observe(f.cached)
	}
}

// reconcile writes the status with all uses that the store knows, unless the cached ApiClient is stale.
func (f *fleet) reconcile() {
	if f.cached.ResourceVersion != f.client.ResourceVersion {
		return
	}
	written := f.cached.DeepCopy()
	lastuse.Merge(&written.Spec, &written.Status, f.store.Uses(written.UID))
	f.api.version++
	written.ResourceVersion = strconv.Itoa(f.api.version)
	f.client = written
}

// collect deletes the Leases of servers that were killed. Those of servers that are cut off are only
// marked, because their Pods exist.
func (f *fleet) collect() {
	for _, object := range f.seen {
		lease, ok := object.(*coordinationv1.Lease)
		current := f.leases[object.GetName()]
		if !ok || current == nil || f.now.Sub(f.renewed[lease.Name]) <= staleLease {
			continue
		}
		if slices.ContainsFunc(f.servers, func(s *runningServer) bool { return heartbeat.LeaseName(s.name) == lease.Name }) {
			current.Annotations[heartbeat.DeadAnnotation] = heartbeat.DeadMark(current)
			continue
		}
		if err := f.store.Lose(context.Background(), f.api, f.now); err != nil {
			continue // the state hasn't been read yet, or is stale
		}
		delete(f.leases, lease.Name)
	}
}

// List and Get read from the API server. Random events happen before each read.
func (f *fleet) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	f.step()
	switch list := list.(type) {
	case *coordinationv1.LeaseList:
		for _, lease := range f.leases {
			list.Items = append(list.Items, *lease.DeepCopy())
		}
	case *corev1.ConfigMapList:
		for _, object := range f.api.configMaps {
			list.Items = append(list.Items, *object.DeepCopy())
		}
	}
	return nil
}

func (f *fleet) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	f.step()
	c, _ := into.(*v1alpha1.ApiClient)
	f.client.DeepCopyInto(c)
	return nil
}

// happen runs one random event.
func (f *fleet) happen() {
	events := []string{"time", "day", "start", "leases", "reports", "status", "reconcile", "flush", "collect", "restart"}
	if len(f.servers) > 0 {
		events = append(events, "use", "publish", "publish", "beat", "kill", "kill and restart", "stop", "cut off", "connect")
	}
	var s *runningServer
	event := rapid.SampledFrom(events).Draw(f.t, "event")
	if len(f.servers) > 0 {
		s = rapid.SampledFrom(f.servers).Draw(f.t, "server")
	}
	switch event {
	case "time":
		f.advance(time.Duration(rapid.IntRange(1, 7200).Draw(f.t, "seconds")) * time.Second)
	case "day":
		f.advance(time.Duration(rapid.IntRange(12, 36).Draw(f.t, "hours")) * time.Hour)
	case "start":
		f.start("")
	case "leases":
		f.watch(true, false, false)
	case "reports":
		f.watch(false, true, false)
	case "status":
		f.watch(false, false, true)
	case "reconcile":
		f.reconcile()
	case "flush":
		f.store.Flush(context.Background(), f.api)
	case "collect":
		f.collect()
	case "restart":
		f.restart()
	default:
		f.happenTo(s, event)
	}
}

func (f *fleet) happenTo(s *runningServer, event string) {
	switch event {
	case "use":
		f.use(s)
	case "publish":
		f.publish(s)
	case "beat":
		f.beat(s)
	case "kill":
		f.stop(s, false)
	case "kill and restart":
		f.stop(s, false)
		f.start(s.name)
	case "stop":
		f.stop(s, true)
	case "cut off":
		s.cutOff = true
	case "connect":
		s.cutOff = false
		f.publish(s)
	}
}

// isUnused reports whether the reconciler would revoke the credential.
func (f *fleet) isUnused() bool {
	recorded, _ := lastuse.LastUsed(f.cached, secret("old"))
	since, until, ok := f.store.Quiet(f.client.UID, secret("old"), recorded)
	if !ok || until.Sub(since) < quietTime {
		return false
	}
	since, until, ok, err := f.store.Confirm(context.Background(), f, f.cached, secret("old"))
	return err == nil && ok && until.Sub(since) >= quietTime
}

// A credential in regular use never looks unused, even if the operator and token servers are killed,
// token servers are cut off, and caches lag.
func TestUsedCredentialNeverLooksUnused(t *testing.T) {
	const rounds = 20 // a round is fast, and some bugs only show up in rare sequences of events
	for range rounds {
		rapid.Check(t, checkUsedCredential)
	}
}

func checkUsedCredential(rt *rapid.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	f := &fleet{
		t: rt, queue: queue, now: start, lastUse: start, api: &objects{configMaps: map[string]*corev1.ConfigMap{}},
		leases: map[string]*coordinationv1.Lease{}, renewed: map[string]time.Time{}, client: newClient("billing", "old"),
	}
	f.step = func() {
		for range rapid.IntRange(0, 4).Draw(rt, "meanwhile") {
			f.happen()
		}
	}
	f.client.ResourceVersion = "0"
	f.start("")
	f.restart()
	f.store.Flush(context.Background(), f.api)
	f.watch(true, true, true)
	for range rapid.IntRange(1, 120).Draw(rt, "steps") {
		f.happen()
		if f.isUnused() {
			rt.Fatalf("at %s, the credential looks unused, but was used at %s", f.now, f.lastUse)
		}
	}
}
