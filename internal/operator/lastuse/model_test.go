package lastuse_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// model runs token servers and an operator against a model of the API server. The operator's caches
// lag behind the API server, independently for each kind of object.
type model struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	api    *modelAPI
	// servers are the running token servers by name.
	servers map[string]*modelServer
	started int
	store   *lastuse.Store
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	// cached are the ApiClients as the operator's cache contains them.
	cached map[string]*v1beta1.ApiClient
	// uses are the times of all uses by client.
	uses map[string][]time.Time
	log  []string
	// sawLeases is when the operator last saw all Leases.
	sawLeases time.Time
}

// modelServer is a running token server.
type modelServer struct {
	pending map[string]time.Time // uses that aren't reported yet, by client
	until   time.Time
	started time.Time
	cutOff  bool // whether it can't reach the API server; workloads can still use it
}

// modelAPI holds the objects of the API server, and the events that the operator has not seen yet.
type modelAPI struct {
	objects
	leases  map[string]*coordinationv1.Lease
	clients map[string]*v1beta1.ApiClient
	events  map[string][]func() // by kind
	deliver func(kind string, object client.Object, removed bool)
	between func() // runs before each read
}

func (a *modelAPI) changed(kind string, object client.Object, removed bool) {
	copied, _ := object.DeepCopyObject().(client.Object)
	a.events[kind] = append(a.events[kind], func() { a.deliver(kind, copied, removed) })
}

func (a *modelAPI) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	before := a.configMaps[object.GetName()]
	err := a.objects.Delete(ctx, object, opts...)
	if err == nil {
		a.changed("ConfigMap", before, true)
	}
	return err
}

func (a *modelAPI) Apply(ctx context.Context, desired runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	err := a.objects.Apply(ctx, desired, opts...)
	if err == nil {
		a.changed("ConfigMap", a.configMaps[lastuse.StateName], false)
	}
	return err
}

func (a *modelAPI) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	a.between()
	switch list := list.(type) {
	case *coordinationv1.LeaseList:
		for _, lease := range a.leases {
			list.Items = append(list.Items, *lease)
		}
	case *corev1.ConfigMapList:
		for _, object := range a.configMaps {
			list.Items = append(list.Items, *object)
		}
	}
	return nil
}

func (a *modelAPI) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	a.between()
	current, ok := a.clients[key.Name]
	into, isClient := object.(*v1beta1.ApiClient)
	if !ok || !isClient {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "apiclients"}, key.Name)
	}
	current.DeepCopyInto(into)
	return nil
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	m := &model{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), now: start,
		servers: map[string]*modelServer{}, uses: map[string][]time.Time{},
	}
	m.api = &modelAPI{
		objects: objects{configMaps: map[string]*corev1.ConfigMap{}},
		leases:  map[string]*coordinationv1.Lease{}, clients: map[string]*v1beta1.ApiClient{}, events: map[string][]func(){},
	}
	m.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(m.queue.ShutDown)
	m.api.deliver, m.api.between = m.deliver, func() {}
	for i := range 3 {
		c := newClient(fmt.Sprintf("client-%d", i), "s1")
		c.ResourceVersion = "1"
		m.api.clients[c.Name] = c
	}
	m.restart()
	return m
}

// restart replaces the operator by one that has listed all objects.
func (m *model) restart() {
	m.cached, m.api.events = map[string]*v1beta1.ApiClient{}, map[string][]func(){}
	for range m.queue.Len() {
		request, _ := m.queue.Get()
		m.queue.Done(request)
	}
	m.store = lastuse.New(namespace, resolution, func() time.Time { return m.now }, func(reason metrics.RejectionReason) { m.t.Errorf("rejected: %s", reason) })
	testkit.Do(m.t, m.store.Grants.Start(m.t.Context(), m.queue))
	for _, object := range m.api.configMaps {
		m.deliver("ConfigMap", object.DeepCopy(), false)
	}
	for _, lease := range m.api.leases {
		m.deliver("Lease", lease.DeepCopy(), false)
	}
	for _, c := range m.api.clients {
		m.deliver("ApiClient", c.DeepCopy(), false)
	}
}

func (m *model) deliver(_ string, object client.Object, removed bool) {
	if removed {
		m.store.Remove(object)
		return
	}
	if c, ok := object.(*v1beta1.ApiClient); ok {
		m.cached[c.Name] = c
	}
	m.store.Observe(object)
}

// step advances the clock and runs a random action.
func (m *model) step() {
	m.now = m.now.Add(time.Duration(m.random.IntN(120)) * time.Second)
	if m.random.IntN(8) == 0 {
		m.seeAll("Lease")
		m.now = m.now.Add(time.Duration(m.random.IntN(300)) * time.Minute)
	}
	m.act()
}

// act runs a random action.
func (m *model) act() {
	m.renew()
	if m.now.Sub(m.sawLeases) > 2*time.Minute {
		m.seeAll("Lease") // Seen any later, they would suggest that the servers' clocks are wrong.
	}
	steps := []func(){m.use, m.use, m.use, m.report, m.report, m.heartbeat, m.see, m.see, m.see, m.flush, m.flush, m.reconcile, m.reconcile, m.start}
	if m.random.IntN(150) == 0 {
		steps = []func(){m.kill, m.stop, m.restart, m.cutOff}
	}
	steps[m.random.IntN(len(steps))]()
}

// anyServer returns a running server, or an empty name if there is none.
func (m *model) anyServer() (string, *modelServer) {
	names := slices.Sorted(maps.Keys(m.servers))
	if len(names) == 0 {
		return "", nil
	}
	name := names[m.random.IntN(len(names))]
	return name, m.servers[name]
}

func (m *model) start() {
	if len(m.servers) >= 3 {
		return
	}
	m.started++
	name := fmt.Sprintf("server-%d", m.started)
	m.servers[name] = &modelServer{pending: map[string]time.Time{}, until: m.now, started: m.now}
	m.writeLease(name)
}

func (m *model) use() {
	if name, s := m.anyServer(); s != nil {
		c := fmt.Sprintf("client-%d", m.random.IntN(3))
		s.pending[c] = usage.Truncate(m.now, resolution)
		m.uses[c] = append(m.uses[c], m.now)
		m.logf("%s is used at %s", c, name)
	}
}

// report adds the pending uses to the server's ConfigMap, which the operator may have deleted.
func (m *model) report() {
	if name, s := m.anyServer(); s != nil && !s.cutOff {
		m.reportOf(name, s)
	}
}

func (m *model) reportOf(name string, s *modelServer) {
	defer func() { s.until = m.now }()
	if len(s.pending) == 0 {
		return
	}
	r := &usage.Report{Server: name}
	if current := m.api.configMaps[usage.Name(name, 0)]; current != nil {
		var err error
		if r, err = usage.Parse(current); err != nil {
			m.t.Fatal(err)
		}
	}
	for c, at := range s.pending {
		r.Add(m.api.clients[c].UID, secret("s1"), at)
	}
	data := testkit.Value(r.Encode())(m.t)
	object := usage.ConfigMap(namespace, name, 0, data)
	m.api.put(object)
	m.api.changed("ConfigMap", object, false)
	s.pending = map[string]time.Time{}
	m.logf("%s reports", name)
}

func (m *model) heartbeat() {
	if name, s := m.anyServer(); s != nil && !s.cutOff {
		m.writeLease(name)
	}
}

// renew writes the Leases that would soon be old enough to show a wrong clock.
func (m *model) renew() {
	for _, name := range slices.Sorted(maps.Keys(m.servers)) {
		if !m.servers[name].cutOff && m.now.Sub(m.api.leases[heartbeat.LeaseName(name)].Spec.RenewTime.Time) > time.Minute {
			m.writeLease(name)
		}
	}
}

func (m *model) writeLease(name string) {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: metav1.NewTime(m.servers[name].started), Namespace: namespace, Name: heartbeat.LeaseName(name), Labels: map[string]string{heartbeat.Label: heartbeat.LabelValue},
			Annotations: map[string]string{
				heartbeat.LoadedAnnotation: "1", heartbeat.ResolutionAnnotation: resolution.String(),
				heartbeat.UsageAnnotation: m.servers[name].until.Format(time.RFC3339),
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(name), RenewTime: new(metav1.NewMicroTime(m.now))},
	}
	m.api.leases[lease.Name] = lease
	m.api.changed("Lease", lease, false)
}

// kill ends a server without a report. Later, the operator deletes its Lease.
func (m *model) kill() {
	name, s := m.anyServer()
	if s == nil {
		return
	}
	delete(m.servers, name)
	m.now = m.now.Add(heartbeat.Duration)
	if err := m.store.Lose(m.t.Context(), m.api, m.now); err != nil {
		m.servers[name] = s // not killed after all
		return
	}
	m.deleteLease(name)
	m.logf("%s was killed", name)
}

// stop ends a server with a report.
func (m *model) stop() {
	if name, s := m.anyServer(); s != nil && !s.cutOff {
		m.reportOf(name, s)
		delete(m.servers, name)
		m.deleteLease(name)
		m.logf("%s stops", name)
	}
}

// cutOff separates a server from the API server, so that its Lease is marked as dead, or connects it
// again.
func (m *model) cutOff() {
	name, s := m.anyServer()
	if s == nil {
		return
	}
	s.cutOff = !s.cutOff
	m.logf("%s is cut off: %t", name, s.cutOff)
	if !s.cutOff {
		m.reportOf(name, s)
		m.writeLease(name)
		return
	}
	dead := m.api.leases[heartbeat.LeaseName(name)].DeepCopy()
	dead.Annotations[heartbeat.DeadAnnotation] = heartbeat.DeadMark(dead)
	m.api.leases[dead.Name] = dead
	m.api.changed("Lease", dead, false)
}

func (m *model) deleteLease(name string) {
	lease := m.api.leases[heartbeat.LeaseName(name)]
	delete(m.api.leases, lease.Name)
	m.api.changed("Lease", lease, true)
}

// see delivers some events of one kind.
func (m *model) see() {
	kind := []string{"ApiClient", "ConfigMap", "Lease"}[m.random.IntN(3)]
	m.seeSome(kind, m.random.IntN(len(m.api.events[kind])+1))
}

func (m *model) seeSome(kind string, n int) {
	events := m.api.events[kind]
	m.api.events[kind] = events[n:]
	for _, event := range events[:n] {
		event()
	}
}

func (m *model) seeAll(kind string) {
	m.seeSome(kind, len(m.api.events[kind]))
	if kind == "Lease" {
		m.sawLeases = m.now
	}
}

func (m *model) flush() { m.store.Flush(m.t.Context(), m.api) }

// reconcile writes the status of one client that was enqueued, unless the cache is stale.
func (m *model) reconcile() {
	if m.queue.Len() == 0 {
		return
	}
	request, _ := m.queue.Get()
	m.queue.Done(request)
	cached, current := m.cached[request.Name], m.api.clients[request.Name]
	if cached.ResourceVersion != current.ResourceVersion {
		m.queue.Add(request) // a conflict
		return
	}
	if !m.store.Granted(cached.UID) {
		return
	}
	written := cached.DeepCopy()
	lastuse.Merge(&written.Status, m.store.Uses(cached.UID))
	m.store.Written(cached.UID)
	m.api.version++
	written.ResourceVersion = strconv.Itoa(m.api.version)
	m.api.clients[request.Name] = written
	m.api.changed("ApiClient", written, false)
	m.logf("the status of %s shows %s", request.Name, written.Status.LastUsedTime)
}

// check checks that no credential looks unused at a time at which it was used. Other actions run
// between the reads.
func (m *model) check() {
	m.api.between = func() {
		for range m.random.IntN(20) {
			m.now = m.now.Add(time.Second)
			m.act()
		}
	}
	defer func() { m.api.between = func() {} }()
	for _, name := range slices.Sorted(maps.Keys(m.uses)) {
		since, until, ok, err := m.store.Confirm(m.t.Context(), m.api, m.cached[name], secret("s1"))
		if err != nil {
			m.t.Fatal(err)
		}
		for _, at := range m.uses[name] {
			if ok && !at.Before(since) && at.Before(until) {
				m.t.Fatalf("%s looks unused from %s to %s, but was used at %s\n%s", name, since, until, at, strings.Join(m.log, "\n"))
			}
		}
	}
}

func (m *model) logf(format string, args ...any) {
	m.log = append(m.log, m.now.Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

// A credential never looks unused at a time of use, even if token servers and the operator end and
// caches lag. Afterwards, the last use of each client is in its status or known to be lost.
func TestUsesAreNeverMissed(t *testing.T) {
	const runs, checks = 100, 40
	shown, missing := 0, 0
	for seed := range uint64(runs) {
		m := newModel(t, seed)
		for range checks {
			m.step()
			m.check()
		}
		m.use()
		m.kill()
		m.settle()
		lost := m.api.lost(t)
		for name, times := range m.uses {
			last := times[len(times)-1]
			switch at := m.api.clients[name].Status.LastUsedTime; {
			case at != nil && !at.Time.Before(usage.Truncate(last, resolution)):
				shown++
			case last.Before(lost):
				missing++
			default:
				t.Errorf("seed %d: %s was used at %s, its status shows %s, and only uses before %s may be missing\n%s",
					seed, name, last, at, lost, strings.Join(m.log, "\n"))
			}
		}
		for name := range m.api.configMaps {
			if name != lastuse.StateName {
				t.Errorf("seed %d: %s was not deleted", seed, name)
			}
		}
	}
	t.Logf("%d last uses are shown, and %d are known to be lost", shown, missing)
	if shown == 0 || missing == 0 {
		t.Error("the model must produce both shown and lost uses")
	}
}

// settle reports, delivers, and merges all pending uses. Two periods without new uses pass.
func (m *model) settle() {
	for name, s := range m.servers {
		s.cutOff = false
		m.reportOf(name, s)
	}
	for range 240 {
		m.now = m.now.Add(30 * time.Second)
		m.renew()
		for _, kind := range []string{"ApiClient", "ConfigMap", "Lease"} {
			m.seeAll(kind)
		}
		m.flush()
		for range m.queue.Len() {
			m.reconcile()
		}
	}
}
