package acknowledgement_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
)

var (
	leases  = coordinationv1.SchemeGroupVersion.WithResource("leases")
	pods    = memory.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", Namespaced: true}
	errDown = errors.New("connection reset")
)

// cluster is an API with token servers, and an operator that leads.
type cluster struct {
	client.Client
	store   *memory.Store
	tracker *acknowledgement.Tracker
	leases  toolscache.ResourceEventHandler
	check   func(context.Context)
	now     time.Time
	seen    int64 // revision up to which the operator's watch has delivered
	frozen  bool  // whether the watch delivers nothing
	down    error // the response to all requests
	before  func(*http.Request)
	// lost is the time before which uses may be missing, and lostErr the result of persisting it.
	lost    time.Time
	lostErr error
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{now: start, seen: 1}
	scheme := runtime.NewScheme()
	testkit.Do(t, clientgoscheme.AddToScheme(scheme))
	var err error
	c.store = testkit.Value(memory.New(memory.Options{
		Resources: append(memory.Resources(), pods), Types: memory.Types(scheme), Now: func() time.Time { return c.now }, NewUID: uuid.NewUUID,
	}))(t)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	mapper.Add(pods.GroupVersionKind(), meta.RESTScopeNamespace)
	cfg := &rest.Config{Host: "memory", Transport: c, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1}
	if c.Client, err = client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper}); err != nil {
		t.Fatal(err)
	}
	c.lead()
	return c
}

// lead starts an operator that leads immediately. Its watch delivers all Leases.
func (c *cluster) lead() {
	c.tracker = acknowledgement.NewTracker(c.Client, namespace, func() time.Time { return c.now })
	c.leases = c.tracker.Handler()
	c.check = acknowledgement.NewMembers(c.tracker, c.Client, system, func(_ context.Context, _ client.Client, before time.Time) error {
		c.lost = before
		return c.lostErr
	}).Check
	c.seen = 1
	c.deliver()
}

// RoundTrip sends a request to the API. After that, the watch delivers what has changed.
func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.down != nil {
		return nil, c.down
	}
	if c.before != nil {
		c.before(r)
	}
	defer c.deliver()
	return c.store.Transport().RoundTrip(r)
}

func (c *cluster) deliver() {
	if c.frozen {
		return
	}
	events, _, err := c.store.Since(c.seen)
	if err != nil {
		panic(err)
	}
	for _, e := range events {
		c.seen = e.Revision
		lease := &coordinationv1.Lease{}
		switch {
		case e.Resource != leases:
		case runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, lease) != nil:
		case e.Type == watch.Deleted:
			c.leases.OnDelete(lease)
		default:
			c.leases.OnUpdate(nil, lease)
		}
	}
}

// renew writes the Lease of a server that serves records up to version.
func (c *cluster) renew(t *testing.T, server, version string) {
	t.Helper()
	beat := heartbeat.Heartbeat{Server: server, Version: version, Renewed: c.now}
	c.apply(t, &beat)
}

// apply writes the Lease of a server as the server does.
func (c *cluster) apply(t *testing.T, beat *heartbeat.Heartbeat) {
	t.Helper()
	lease := &coordinationv1ac.LeaseApplyConfiguration{}
	testkit.Do(t, json.Unmarshal(testkit.Value(json.Marshal(beat.Lease(namespace)))(t), lease))
	testkit.Do(t, c.Apply(t.Context(), lease, client.FieldOwner("token-server"), client.ForceOwnership))
}

// pass lets time pass, in which the operator checks the servers every second.
func (c *cluster) pass(t *testing.T, d time.Duration, meanwhile ...func()) {
	t.Helper()
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(time.Second)
		for _, do := range meanwhile {
			do()
		}
		c.check(t.Context())
	}
}

// servers returns the servers by state: those whose Lease exists, and those of them that are dead.
func (c *cluster) servers(t *testing.T) (exist, dead []string) {
	t.Helper()
	list := &coordinationv1.LeaseList{}
	testkit.Do(t, c.List(t.Context(), list, client.MatchingLabels{heartbeat.Label: heartbeat.LabelValue}))
	for i := range list.Items {
		beat := testkit.Value(heartbeat.Parse(&list.Items[i]))(t)
		if exist = append(exist, beat.Server); beat.Dead {
			dead = append(dead, beat.Server)
		}
	}
	slices.Sort(exist)
	slices.Sort(dead)
	return exist, dead
}

func (c *cluster) expect(t *testing.T, what string, exist, dead []string) {
	t.Helper()
	gotExist, gotDead := c.servers(t)
	testkit.Diff(t, what+": Leases and dead servers", [][]string{exist, dead}, [][]string{gotExist, gotDead})
	if got, want := c.live(), len(exist)-len(dead); got != want {
		t.Errorf("%s: %d live servers, want %d", what, got, want)
	}
}

// live returns the number of token servers that the operator waits for.
func (c *cluster) live() (n int) {
	for _, s := range c.tracker.Servers() {
		if s.Version != "" && !s.Dead {
			n++
		}
	}
	return n
}

func (c *cluster) createPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
	testkit.Do(t, c.Create(t.Context(), pod))
	return pod
}

// A server that doesn't renew its Lease is dead until it does. Its Lease exists as long as its Pod.
func TestDeadServer(t *testing.T) {
	c := newCluster(t)
	pod := c.createPod(t, "b")
	c.renew(t, "a", "1")
	c.renew(t, "b", "1")
	alive := func() { c.renew(t, "a", "1") }
	c.pass(t, heartbeat.Duration, alive)
	c.expect(t, "less than the duration after the first proof", []string{"a", "b"}, nil)
	c.pass(t, 5*time.Second, alive)
	c.expect(t, "after the duration", []string{"a", "b"}, []string{"b"})
	c.pass(t, 10*time.Minute, alive)
	c.expect(t, "as long as the Pod exists", []string{"a", "b"}, []string{"b"})
	if !c.lost.IsZero() {
		t.Error("a loss of uses was persisted although the Pod exists")
	}
	c.renew(t, "b", "1")
	c.expect(t, "renewed", []string{"a", "b"}, nil)
	c.pass(t, heartbeat.Duration-time.Second, alive)
	c.expect(t, "less than the duration after that", []string{"a", "b"}, nil)
	c.pass(t, 8*time.Second, alive)
	c.expect(t, "dead again", []string{"a", "b"}, []string{"b"})

	// A killed server has not reported its last uses. Only its Lease shows that.
	testkit.Do(t, c.Delete(t.Context(), pod))
	c.lostErr = errDown
	c.pass(t, 5*time.Second, alive)
	c.expect(t, "the loss of uses can't be persisted", []string{"a", "b"}, []string{"b"})
	c.lostErr = nil
	c.pass(t, 5*time.Second, alive)
	c.expect(t, "the loss of uses was persisted", []string{"a"}, nil)
	if c.now.Sub(c.lost) > 5*time.Second {
		t.Errorf("uses before %s may be missing; it is %s", c.lost, c.now)
	}
}

// A Pod whose containers have ended serves nothing, even if it is kept.
func TestPodThatHasEnded(t *testing.T) {
	for phase, want := range map[corev1.PodPhase][]string{corev1.PodRunning: {"a"}, corev1.PodPending: {"a"}, corev1.PodFailed: nil, corev1.PodSucceeded: nil} {
		c := newCluster(t)
		pod := c.createPod(t, "a")
		pod.Status.Phase = phase
		testkit.Do(t, c.Update(t.Context(), pod))
		c.renew(t, "a", "1")
		c.pass(t, time.Minute)
		if exist, _ := c.servers(t); !slices.Equal(exist, want) {
			t.Errorf("%s: the Leases are those of %v, want %v", phase, exist, want)
		}
	}
}

// The clock of a server doesn't matter.
func TestServerClocks(t *testing.T) {
	for _, offset := range []time.Duration{-time.Hour, time.Hour} {
		c := newCluster(t)
		c.pass(t, 5*time.Minute, func() {
			beat := heartbeat.Heartbeat{Server: "a", Version: "1", Renewed: c.now.Add(offset)}
			c.apply(t, &beat)
		})
		c.expect(t, "clock off by "+offset.String(), []string{"a"}, nil)
	}
}

// After an outage, the Leases are old, and the servers return one after the other. None counts as dead
// until the operator has seen its Lease unchanged for 30 seconds while the API server worked. That holds for
// a leader that was there before, and for a new one.
func TestOutageKillsNoServer(t *testing.T) {
	for name, after := range map[string]func(*cluster){
		"same leader": func(*cluster) {},
		"new leader":  (*cluster).lead,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.renew(t, "a", "1")
			c.renew(t, "b", "1")
			c.pass(t, 20*time.Second)
			c.down = errDown
			c.pass(t, 10*time.Minute)
			c.down = nil
			after(c)
			c.pass(t, 20*time.Second)
			c.renew(t, "a", "2")
			c.pass(t, 10*time.Second)
			c.expect(t, "one server has returned", []string{"a", "b"}, nil)
			if got := c.tracker.Follow(acknowledgement.Client, request("billing"), recorded("2")); got != acknowledgement.Waiting {
				t.Errorf("state %d although the other server has not returned", got)
			}
			c.pass(t, 5*time.Second)
			c.expect(t, "the other server has not returned", []string{"a", "b"}, []string{"b"})
		})
	}
}

// A leader that was paused has seen nothing meanwhile.
func TestPausedLeader(t *testing.T) {
	c := newCluster(t)
	c.renew(t, "a", "1")
	c.pass(t, 20*time.Second)
	c.now = c.now.Add(time.Hour)
	c.pass(t, 25*time.Second)
	c.expect(t, "after a pause", []string{"a"}, nil)
}

// While the watch of the Leases delivers nothing, no server counts as dead.
func TestStarvedWatch(t *testing.T) {
	c := newCluster(t)
	c.createPod(t, "a")
	c.renew(t, "a", "1")
	c.pass(t, 20*time.Second)
	c.frozen = true
	c.pass(t, 2*time.Minute)
	if _, dead := c.servers(t); dead != nil {
		t.Errorf("dead servers: %v", dead)
	}
	c.frozen = false
	c.pass(t, heartbeat.Duration)
	c.expect(t, "the watch delivers again", []string{"a"}, nil)
	c.pass(t, 8*time.Second)
	c.expect(t, "the watch has delivered for the duration", []string{"a"}, []string{"a"})
}

// A server that renews or deletes its Lease before the mark arrives gets none.
func TestLateMark(t *testing.T) {
	stop := func(t *testing.T, c *cluster) {
		testkit.Do(t, c.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: heartbeat.LeaseName("a")}}))
	}
	tests := map[string]struct {
		before func(*testing.T, *cluster)
		want   []string
	}{
		"renewed": {func(t *testing.T, c *cluster) { c.renew(t, "a", "2") }, []string{"a"}},
		"stopped": {stop, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.renew(t, "a", "1")
			marked := false
			c.before = func(r *http.Request) {
				if !marked && strings.HasSuffix(r.URL.Path, heartbeat.LeaseName("a")) && r.URL.Query().Get("fieldManager") == v1beta1.FieldOwner {
					marked = true
					tc.before(t, c)
				}
			}
			c.pass(t, heartbeat.Duration+5*time.Second)
			if !marked {
				t.Fatal("the operator has not marked the Lease")
			}
			c.expect(t, name, tc.want, nil)
			lease := &coordinationv1.Lease{}
			err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: heartbeat.LeaseName("a")}, lease)
			if _, found := lease.Annotations[heartbeat.DeadAnnotation]; found || client.IgnoreNotFound(err) != nil {
				t.Errorf("the Lease has a mark: %v, error %v", lease.Annotations, err)
			}
		})
	}
}

// An invalid Lease doesn't count, and is deleted when its Pod is gone.
func TestInvalidLease(t *testing.T) {
	c := newCluster(t)
	pod := c.createPod(t, "a")
	invalid := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: heartbeat.LeaseName("a"), Labels: map[string]string{heartbeat.Label: heartbeat.LabelValue},
	}}
	testkit.Do(t, c.Create(t.Context(), invalid))
	c.pass(t, time.Minute)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(invalid), invalid); err != nil || len(invalid.Annotations) > 0 || c.live() != 0 {
		t.Errorf("Lease %v, %d live servers: %v", invalid.Annotations, c.live(), err)
	}
	testkit.Do(t, c.Delete(t.Context(), pod))
	c.pass(t, 5*time.Second)
	if exist, _ := c.servers(t); exist != nil {
		t.Errorf("Leases of %v", exist)
	}
}

// A step that can't be undone needs every server, according to the API server.
func TestConfirm(t *testing.T) {
	records := []acknowledgement.Record{{Name: "client", Version: "100"}, {Name: "subject", Version: "90"}, {Name: "realm", Version: "90", PendingKeyOf: "acme"}}
	join := func(t *testing.T, c *cluster) { c.renew(t, "joining", "") }
	tests := map[string]struct {
		servers map[string]string
		change  func(*testing.T, *cluster)
		want    bool
	}{
		"a joining server":       {servers: map[string]string{"a": "100"}, change: join},
		"joining for 5 minutes":  {servers: map[string]string{"a": "100"}, change: func(t *testing.T, c *cluster) { join(t, c); c.now = c.now.Add(5 * time.Minute) }, want: true},
		"joining, and renewed":   {servers: map[string]string{"a": "100"}, change: func(t *testing.T, c *cluster) { join(t, c); c.now = c.now.Add(4 * time.Minute); join(t, c) }},
		"a server has restarted": {servers: map[string]string{"a": "100"}, change: func(t *testing.T, c *cluster) { c.now = c.now.Add(time.Hour); c.renew(t, "a", "99") }},
		"a dead server is behind": {servers: map[string]string{"a": "100", "b": "99"}, change: func(t *testing.T, c *cluster) {
			c.createPod(t, "b")
			c.pass(t, time.Minute, func() { c.renew(t, "a", "100") })
		}, want: true},
		"it is the only one":          {servers: map[string]string{"b": "101"}, change: func(t *testing.T, c *cluster) { c.createPod(t, "b"); c.pass(t, time.Minute) }},
		"the watch has not delivered": {servers: map[string]string{"a": "100"}, change: func(t *testing.T, c *cluster) { c.frozen = true; c.renew(t, "b", "99") }},
		"a record is unreadable": {servers: map[string]string{"a": "100"}, change: func(t *testing.T, c *cluster) {
			beat := heartbeat.Heartbeat{Server: "b", Version: "100", Renewed: c.now, Unreadable: []string{"subject"}}
			c.apply(t, &beat)
		}},
		"the watch has not delivered a key that is not decrypted": {servers: map[string]string{"a": "100"}, change: func(t *testing.T, c *cluster) {
			c.frozen = true
			c.apply(t, &heartbeat.Heartbeat{Server: "b", Version: "100", Renewed: c.now, UndecryptedPending: []string{"acme"}})
		}},
		"the key of another realm is not decrypted": {servers: map[string]string{"a": "100"}, change: func(t *testing.T, c *cluster) {
			c.apply(t, &heartbeat.Heartbeat{Server: "b", Version: "100", Renewed: c.now, UndecryptedPending: []string{"shop"}})
		}, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			for server, version := range tc.servers {
				c.renew(t, server, version)
			}
			if tc.change != nil {
				tc.change(t, c)
			}
			if got, err := c.tracker.Confirm(t.Context(), records...); got != tc.want || err != nil {
				t.Errorf("confirmed: %t, want %t; error %v", got, tc.want, err)
			}
			c.down = errDown
			if got, err := c.tracker.Confirm(t.Context(), records...); got || !errors.Is(err, errDown) {
				t.Errorf("confirmed without the API server: %t, error %v", got, err)
			}
		})
	}
}
