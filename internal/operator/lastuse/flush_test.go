package lastuse_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
	"github.com/realmkeeper/realmkeeper/internal/usage"
)

// unknownDelay is how long a use of an unknown client or credential is kept.
const unknownDelay = 30 * time.Second

func TestUseMovesToStatusAndReportIsDeleted(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	f.store.Observe(c)
	object := f.publish(report(server, c, secret("s1"), f.now))
	testkit.Diff(t, "enqueued clients", []string{"a"}, f.flush())
	if !f.store.Granted(c.UID) {
		t.Error("the write of the status was not granted")
	}
	if f.api.configMaps[object.Name] == nil {
		t.Fatal("the report was deleted before the status showed its use")
	}
	c = f.write(c)
	if got, want := c.Status.Secrets[0].LastUsedTime, usage.Truncate(f.now, resolution); got == nil || !got.Time.Equal(want) {
		t.Errorf("the status shows %v, want %s", got, want)
	}
	if f.flush(); f.api.configMaps[object.Name] != nil {
		t.Error("the report was not deleted, although the status shows its use")
	}
	if f.store.Granted(c.UID) {
		t.Error("another write is granted")
	}
}

// The status of a client that is used all the time is written once per period, regardless of the
// number of servers and credentials.
func TestOneWritePerPeriod(t *testing.T) {
	f := running(t)
	f.now = f.now.Truncate(time.Hour)
	c := newClient("a", "s1")
	c.Status.Secrets = append(c.Status.Secrets, v1alpha1.ClientSecretStatus{ID: "s2"})
	f.store.Observe(c)
	writes, reports := 0, map[string]*usage.Report{}
	const hours = 5
	for minute := range hours * 60 {
		name := fmt.Sprintf("server-%d", minute%3)
		if f.api.configMaps[usage.Name(name, 0)] == nil {
			reports[name] = &usage.Report{Server: name}
		}
		reports[name].Add(c.UID, secret(fmt.Sprintf("s%d", 1+minute/7%2)), usage.Truncate(f.now, resolution))
		f.publish(reports[name])
		if len(f.flush()) > 0 {
			c = f.write(c)
			writes++
		}
		f.now = f.now.Add(time.Minute)
	}
	if writes != hours {
		t.Errorf("%d writes in %d hours, want one for each", writes, hours)
	}
	testkit.Diff(t, "enqueued clients in the next hour", []string{"a"}, f.flush())
	c = f.write(c)
	for _, s := range c.Status.Secrets {
		if s.LastUsedTime == nil || s.LastUsedTime.Before(c.Status.LastUsedTime) {
			t.Errorf("secret %s was last used at %v, the client at %v", s.ID, s.LastUsedTime, c.Status.LastUsedTime)
		}
	}
}

// The operator was restarted, so it doesn't remember its writes.
func TestRestartWritesNothing(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	f.store.Observe(c)
	f.publish(report(server, c, secret("s1"), f.now))
	f.flush()
	c = f.write(c)
	f.api.writes = nil
	f.restart()
	f.sync()
	f.store.Observe(c)
	if enqueued := f.flush(); len(enqueued) > 0 || f.store.Granted(c.UID) {
		t.Errorf("the status is written again: %v", enqueued)
	}
	testkit.Diff(t, "writes", []string{"delete " + usage.Name(server, 0)}, f.api.writes)
}

func TestWritesAreLimited(t *testing.T) {
	f := running(t)
	r := &usage.Report{Server: server}
	for i := range 25 {
		c := newClient(fmt.Sprintf("client-%d", i), "s1")
		f.store.Observe(c)
		r.Add(c.UID, secret("s1"), usage.Truncate(f.now, resolution))
	}
	f.publish(r)
	written := func(names []string) int {
		for _, name := range names {
			f.write(newClient(name, "s1"))
		}
		return len(names)
	}
	first := f.flush()
	if more := f.flush(); len(more) > 0 {
		t.Errorf("%d more clients were enqueued before the first were written", len(more))
	}
	enqueued := []int{written(first[:9]), written(f.flush())}
	f.now = f.now.Add(time.Minute) // The last client of the first pass can't be written.
	enqueued = append(enqueued, written(f.flush()), written(f.flush()))
	testkit.Diff(t, "clients per pass", []int{9, 9, 6, 0}, enqueued)
}

// Uses of deleted clients and credentials must not keep a report forever, but the cache can lag.
func TestUnknownUsesAreKeptForAWhile(t *testing.T) {
	const gone = types.UID("gone")
	for name, change := range map[string]func(*usage.Report, *v1alpha1.ApiClient){
		"client": func(r *usage.Report, _ *v1alpha1.ApiClient) { r.Add(gone, secret("s1"), start) },
		"secret": func(r *usage.Report, c *v1alpha1.ApiClient) { r.Add(c.UID, secret("gone"), start.Add(-time.Hour)) },
		"public key": func(r *usage.Report, c *v1alpha1.ApiClient) {
			r.Add(c.UID, usage.Credential{Type: usage.PublicKey, ID: "gone"}, start)
		},
		"terminating": func(_ *usage.Report, c *v1alpha1.ApiClient) { c.DeletionTimestamp = new(metav1.NewTime(start)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := running(t)
			c := newClient("a", "s1")
			r := report(server, c, secret("s1"), f.now)
			change(r, c)
			f.store.Observe(c)
			object := f.publish(r)
			f.flush()
			f.write(c)
			f.now = f.now.Add(unknownDelay - time.Second)
			if f.flush(); f.api.configMaps[object.Name] == nil {
				t.Fatal("the report was deleted too early")
			}
			f.now = f.now.Add(time.Second)
			if f.flush(); f.api.configMaps[object.Name] != nil {
				t.Error("the report was kept")
			}
		})
	}
}

// A server can add a use every minute. If each change of the report restarted the delay, a use of a
// deleted client would keep the report forever.
func TestDelayOfUnknownUsesIsNotRepeated(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	f.store.Observe(c)
	r := &usage.Report{Server: server}
	r.Add("gone", secret("s1"), f.now)
	f.publish(r)
	f.now = f.now.Add(unknownDelay)
	r.Add(c.UID, secret("s1"), usage.Truncate(f.now, resolution))
	object := f.publish(r)
	f.flush()
	f.write(c)
	if f.flush(); f.api.configMaps[object.Name] != nil {
		t.Error("the report was kept")
	}
}

// The limit of one write per period holds after a restart, too.
func TestRestartKeepsTheLimit(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	c.Status.Secrets = append(c.Status.Secrets, v1alpha1.ClientSecretStatus{ID: "s2"})
	f.store.Observe(c)
	f.publish(report(server, c, secret("s1"), f.now))
	f.flush()
	c = f.write(c)
	f.restart()
	f.sync()
	f.store.Observe(c)
	f.publish(report("another", c, secret("s2"), f.now))
	if enqueued := f.flush(); len(enqueued) > 0 {
		t.Errorf("the status is written a second time in the period: %v", enqueued)
	}
	f.now = f.now.Add(resolution)
	if enqueued := f.flush(); len(enqueued) == 0 {
		t.Error("the status is not written in the next period")
	}
}
