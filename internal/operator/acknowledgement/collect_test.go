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

// leaseClient lists the given Leases and records deletions. It does not emulate any other API
// server behavior.
type leaseClient struct {
	client.Client
	leases  []*coordinationv1.Lease
	deleted []string
	// lost is the time before which uses may be missing.
	lost                        time.Time
	listErr, deleteErr, lostErr error
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
		return errors.New("deletion without preconditions")
	}
	if c.lost.IsZero() {
		return errors.New("deletion before the loss of uses was persisted")
	}
	c.deleted = append(c.deleted, obj.GetName())
	return c.deleteErr
}

func (f *fixture) collect(t *testing.T, c *leaseClient) []string {
	t.Helper()
	c.deleted, c.lost = nil, time.Time{}
	f.tracker.Collect(t.Context(), c, namespace, func() time.Time { return f.now }, func(_ context.Context, _ client.Client, before time.Time) error {
		c.lost = before
		return c.lostErr
	})
	slices.Sort(c.deleted)
	return c.deleted
}

// Staleness is measured with this process's clock, not with the renew time of the Lease.
func TestStaleLeaseIsDeleted(t *testing.T) {
	const a, b = "token-server-a", "token-server-b"
	f := newFixture(t)
	c := &leaseClient{leases: []*coordinationv1.Lease{f.lease("a", "1"), f.lease("b", "1")}}
	f.renew("a", "1")
	f.renew("b", "1")
	steps := []struct {
		what   string
		change func()
		want   []string
	}{
		{"immediately", func() {}, nil},
		{"after the lease duration", func() { f.now = f.now.Add(heartbeat.Duration) }, nil},
		{"a is renewed, b is stale", func() {
			f.now = f.now.Add(time.Second)
			f.renew("a", "1")
			c.leases[0] = f.lease("a", "1")
		}, []string{b}},
		{"b is still in the cache", func() {}, []string{b}},
		{"b was deleted", func() { f.remove("b"); c.leases = c.leases[:1] }, nil},
		{"a is stale too", func() { f.now = f.now.Add(heartbeat.Duration + time.Second) }, []string{a}},
	}
	for _, s := range steps {
		s.change()
		if diff := cmp.Diff(s.want, f.collect(t, c)); diff != "" {
			t.Errorf("%s: deleted (-want +got):\n%s", s.what, diff)
		}
	}
}

// A server with an incorrect clock remains live as long as it renews its Lease.
func TestCollectIgnoresServerClocks(t *testing.T) {
	f := newFixture(t)
	for _, offset := range []time.Duration{-4 * time.Minute, 4 * time.Minute} {
		lease := f.lease("a", "1")
		for range 20 {
			f.now = f.now.Add(heartbeat.MaxInterval)
			renewed := f.lease("a", "1")
			renewed.Spec.RenewTime.Time = f.now.Add(offset)
			f.leases.OnUpdate(lease, renewed)
			lease = renewed
			if got := f.collect(t, &leaseClient{leases: []*coordinationv1.Lease{lease}}); len(got) > 0 {
				t.Fatalf("deleted %v with a server clock off by %s", got, offset)
			}
		}
	}
}

func TestCollectUnknownLeases(t *testing.T) {
	tests := map[string]struct {
		change func(*coordinationv1.Lease)
		age    time.Duration
		want   []string
	}{
		"renewed recently":         {age: time.Second},
		"stale":                    {age: time.Hour, want: []string{"token-server-a"}},
		"no renew time":            {age: time.Hour, change: func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }},
		"no spec":                  {age: time.Hour, change: func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{} }},
		"renew time in the future": {age: -time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			lease := f.lease("a", "1")
			if tc.change != nil {
				tc.change(lease)
			}
			f.now = f.now.Add(tc.age)
			if diff := cmp.Diff(tc.want, f.collect(t, &leaseClient{leases: []*coordinationv1.Lease{lease}})); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// If the deletion fails, the API server may be down and the token server alive.
func TestFailedDeletionExtendsDeadline(t *testing.T) {
	f := newFixture(t)
	f.renew("a", "1")
	c := &leaseClient{leases: []*coordinationv1.Lease{f.lease("a", "1")}, deleteErr: errors.New("API server unavailable")}
	attempted := []string{"token-server-a"}
	steps := []struct {
		what   string
		pause  time.Duration
		change func()
		want   []string
	}{
		{"stale, deletion fails", heartbeat.Duration + time.Second, func() {}, attempted},
		{"deadline extended", time.Second, func() {}, nil},
		{"stale again, list fails", heartbeat.Duration, func() { c.leases, c.listErr = nil, errors.New("API server unavailable") }, nil},
		{"API server is back, Lease not found", 0, func() {
			c.leases = []*coordinationv1.Lease{f.lease("a", "1")}
			c.leases[0].Spec.RenewTime.Time = start
			c.listErr, c.deleteErr = nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "a")
		}, attempted},
		{"not found does not extend the deadline", 0, func() {}, attempted},
	}
	for _, s := range steps {
		f.now = f.now.Add(s.pause)
		s.change()
		if diff := cmp.Diff(s.want, f.collect(t, c)); diff != "" {
			t.Errorf("%s: deleted (-want +got):\n%s", s.what, diff)
		}
		if got := f.state("billing", "1"); got != acknowledgement.Acknowledged {
			t.Errorf("%s: state %d, want %d", s.what, got, acknowledgement.Acknowledged)
		}
	}
}

// A killed server has not reported its last uses. Only its Lease shows that, so the loss is
// persisted before the Lease is deleted.
func TestLossOfUsesIsPersistedFirst(t *testing.T) {
	f := newFixture(t)
	c := &leaseClient{leases: []*coordinationv1.Lease{f.lease("a", "1")}, lostErr: errors.New("unavailable")}
	f.renew("a", "1")
	if f.collect(t, c); !c.lost.IsZero() {
		t.Error("a loss was persisted for a live server")
	}
	f.now = f.now.Add(heartbeat.Duration + time.Second)
	if deleted := f.collect(t, c); len(deleted) > 0 {
		t.Errorf("deleted %v, although the loss was not persisted", deleted)
	}
	c.lostErr = nil
	if deleted := f.collect(t, c); len(deleted) != 1 || !c.lost.Equal(f.now) {
		t.Errorf("deleted %v after persisting a loss before %s; it is %s", deleted, c.lost, f.now)
	}
}
