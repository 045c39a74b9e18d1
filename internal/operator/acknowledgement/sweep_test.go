package acknowledgement_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
)

// leaseClient gives Leases and takes deletions; it decides nothing that an API server would.
type leaseClient struct {
	client.Client
	leases             []*coordinationv1.Lease
	deleted            []string
	listErr, deleteErr error
}

func (c *leaseClient) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	leases, _ := list.(*coordinationv1.LeaseList)
	for _, lease := range c.leases {
		leases.Items = append(leases.Items, *lease)
	}
	return c.listErr
}

func (c *leaseClient) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	pre := options.Preconditions
	if pre == nil || pre.UID == nil || *pre.UID != obj.GetUID() || pre.ResourceVersion == nil || *pre.ResourceVersion != obj.GetResourceVersion() {
		return errors.New("not deleted as it was seen")
	}
	c.deleted = append(c.deleted, obj.GetName())
	return c.deleteErr
}

func (w *world) sweep(t *testing.T, c *leaseClient) []string {
	t.Helper()
	c.deleted = nil
	w.tracker.Sweep(t.Context(), c, namespace, func() time.Time { return w.now })
	slices.Sort(c.deleted)
	return c.deleted
}

// The Lease of a server that fell silent is removed; by this process's clock, not by the Lease's.
func TestSweep(t *testing.T) {
	const a, b = "token-server-a", "token-server-b"
	w := newWorld(t)
	c := &leaseClient{leases: []*coordinationv1.Lease{w.lease("a", "1"), w.lease("b", "1")}}
	w.beat("a", "1")
	w.beat("b", "1")
	steps := []struct {
		what   string
		change func()
		want   []string
	}{
		{"at once", func() {}, nil},
		{"a term later", func() { w.now = w.now.Add(heartbeat.Duration) }, nil},
		{"a renews, b falls silent", func() {
			w.now = w.now.Add(time.Second)
			w.beat("a", "1")
			c.leases[0] = w.lease("a", "1")
		}, []string{b}},
		{"the cache still has b", func() {}, []string{b}},
		{"b is gone", func() { w.gone("b"); c.leases = c.leases[:1] }, nil},
		{"a falls silent too", func() { w.now = w.now.Add(heartbeat.Duration + time.Second) }, []string{a}},
	}
	for _, s := range steps {
		s.change()
		if diff := cmp.Diff(s.want, w.sweep(t, c)); diff != "" {
			t.Errorf("%s: deleted (-want +got):\n%s", s.what, diff)
		}
	}
}

// A server whose clock is wrong lives as long as it renews.
func TestSweepTrustsNoOtherClock(t *testing.T) {
	w := newWorld(t)
	for _, offset := range []time.Duration{-4 * time.Minute, 4 * time.Minute} {
		lease := w.lease("a", "1")
		for range 20 {
			w.now = w.now.Add(heartbeat.MaxInterval)
			renewed := w.lease("a", "1")
			renewed.Spec.RenewTime.Time = w.now.Add(offset)
			w.leases.OnUpdate(lease, renewed)
			lease = renewed
			if got := w.sweep(t, &leaseClient{leases: []*coordinationv1.Lease{lease}}); len(got) > 0 {
				t.Fatalf("with a clock off by %s: deleted %v", offset, got)
			}
		}
	}
}

func TestSweepOfUnknownLeases(t *testing.T) {
	tests := map[string]struct {
		change func(*coordinationv1.Lease)
		age    time.Duration
		want   []string
	}{
		"renewed a moment ago":     {age: time.Second},
		"old":                      {age: time.Hour, want: []string{"token-server-a"}},
		"without a renew time":     {age: time.Hour, change: func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }},
		"without a spec":           {age: time.Hour, change: func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{} }},
		"from a clock ahead of us": {age: -time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			lease := w.lease("a", "1")
			if tc.change != nil {
				tc.change(lease)
			}
			w.now = w.now.Add(tc.age)
			if diff := cmp.Diff(tc.want, w.sweep(t, &leaseClient{leases: []*coordinationv1.Lease{lease}})); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// Without the API server's word nobody is dead: a failure gives another term.
func TestSweepWithoutAPIServer(t *testing.T) {
	w := newWorld(t)
	w.beat("a", "1")
	c := &leaseClient{leases: []*coordinationv1.Lease{w.lease("a", "1")}, deleteErr: errors.New("no API server")}
	tried := []string{"token-server-a"}
	steps := []struct {
		what  string
		pause time.Duration
		fault func()
		want  []string
	}{
		{"silent, and the deletion fails", heartbeat.Duration + time.Second, func() {}, tried},
		{"excused", time.Second, func() {}, nil},
		{"silent for another term, the list fails", heartbeat.Duration, func() { c.leases, c.listErr = nil, errors.New("no API server") }, nil},
		{"it is back, and says that the Lease is gone", 0, func() {
			c.leases = []*coordinationv1.Lease{w.lease("a", "1")}
			c.leases[0].Spec.RenewTime.Time = start
			c.listErr, c.deleteErr = nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "a")
		}, tried},
		{"not found is no reason for another term", 0, func() {}, tried},
	}
	for _, s := range steps {
		w.now = w.now.Add(s.pause)
		s.fault()
		if diff := cmp.Diff(s.want, w.sweep(t, c)); diff != "" {
			t.Errorf("%s: deleted (-want +got):\n%s", s.what, diff)
		}
		if got := w.state("billing", "1"); got != acknowledgement.Acknowledged {
			t.Errorf("%s: state %d", s.what, got)
		}
	}
}
