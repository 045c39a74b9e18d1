package lastuse_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
)

// unknownDelay is how long a use of an unknown client or credential is kept.
const unknownDelay = 30 * time.Second

// The status of a client that is used all the time is written once per period, regardless of the
// number of servers and credentials.
func TestOneWritePerPeriod(t *testing.T) {
	f := running(t)
	f.now = f.now.Truncate(time.Hour)
	c := newClient("a", "s1")
	c.Status.Credentials = append(c.Status.Credentials, secretUsed("s2", 0))
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
	if f.store.Granted(c.UID) {
		t.Error("another write is granted")
	}
	for _, s := range c.Status.Credentials {
		if s.LastUsedTime == nil || s.LastUsedTime.Before(c.Status.LastUsedTime) {
			t.Errorf("secret %s was last used at %v, the client at %v", s.Name, s.LastUsedTime, c.Status.LastUsedTime)
		}
	}
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
	for name, change := range map[string]func(*usage.Report, *v1beta1.ApiClient){
		"client": func(r *usage.Report, _ *v1beta1.ApiClient) { r.Add(gone, secret("s1"), start) },
		"secret": func(r *usage.Report, c *v1beta1.ApiClient) { r.Add(c.UID, secret("gone"), start.Add(-time.Hour)) },
		"public key": func(r *usage.Report, c *v1beta1.ApiClient) {
			r.Add(c.UID, usage.Credential{Type: usage.PublicKey, ID: "gone"}, start)
		},
		"terminating": func(_ *usage.Report, c *v1beta1.ApiClient) { c.DeletionTimestamp = new(metav1.NewTime(start)) },
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

// The limit of one write per period holds after a restart, too.
func TestRestartKeepsTheLimit(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	c.Status.Credentials = append(c.Status.Credentials, secretUsed("s2", 0))
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

type quiet struct {
	since, until time.Time
	ok           bool
}

func (f *fixture) quiet(c *v1beta1.ApiClient, id string, recorded time.Time) quiet {
	since, until, ok := f.store.Quiet(c.UID, secret(id), recorded)
	return quiet{since, until, ok}
}

// running returns a fixture whose store started a day ago, so that no earlier uses are missing in
// the test.
func running(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.flush()
	f.sync()
	f.now = f.now.Add(24 * time.Hour)
	return f
}

// While there is no token server, workloads can't use their credentials.
func TestQuietSinceTheOldestServerStarted(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	for server, age := range map[string]time.Duration{"one": 2 * time.Hour, "two": 5 * time.Hour, "three": time.Hour} {
		lease := f.heartbeat(server, f.now, 0)
		lease.CreationTimestamp = metav1.NewTime(f.now.Add(-age))
		f.store.Observe(lease)
	}
	if got, want := f.quiet(c, "s1", time.Time{}).since, f.now.Add(-5*time.Hour); !got.Equal(want) {
		t.Errorf("quiet since %s, want the start of the oldest server, %s", got, want)
	}
	if got, want := f.quiet(c, "s1", f.now.Add(-3*time.Hour)).since, f.now.Add(-2*time.Hour); !got.Equal(want) {
		t.Errorf("quiet since %s, want the use after that, %s", got, want)
	}
}

func hour(h int) time.Time { return time.Date(2026, 3, 1, h, 0, 0, 0, time.UTC) }

func used(h int) *metav1.Time { return new(metav1.NewTime(hour(h))) }

// secretUsed, keyUsed, and identityUsed return credentials with their last use at the given hour, or none if
// it is 0.
func secretUsed(name string, h int) v1beta1.CredentialStatus {
	return credentialUsed(v1beta1.CredentialTypeSecret, name, h)
}

func keyUsed(name string, h int) v1beta1.CredentialStatus {
	return credentialUsed(v1beta1.CredentialTypePublicKey, name, h)
}

func identityUsed(name string, h int) v1beta1.CredentialStatus {
	return credentialUsed(v1beta1.CredentialTypeIdentity, name, h)
}

func credentialUsed(kind v1beta1.CredentialType, name string, h int) v1beta1.CredentialStatus {
	c := v1beta1.CredentialStatus{Type: kind, Name: name}
	if h != 0 {
		c.LastUsedTime = used(h)
	}
	return c
}

// fullStatus returns the status of a client with credentials of each type, which was used at 10:00.
func fullStatus() v1beta1.ApiClientStatus {
	return v1beta1.ApiClientStatus{
		LastUsedTime: used(10),
		Credentials:  []v1beta1.CredentialStatus{secretUsed("s1", 10), secretUsed("s2", 0), keyUsed("2026-01", 0), keyUsed("2026-02", 9), identityUsed("ci", 0)},
	}
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct {
		uses lastuse.Uses
		want func(*v1beta1.ApiClientStatus)
	}{
		"an earlier use": {lastuse.Uses{secret("s1"): hour(8), {Type: usage.PublicKey, ID: "2026-02"}: hour(8)}, func(*v1beta1.ApiClientStatus) {}},
		"a later use": {lastuse.Uses{secret("s1"): hour(11)}, func(s *v1beta1.ApiClientStatus) {
			s.LastUsedTime, s.Credentials[0] = used(11), secretUsed("s1", 11)
		}},
		"a credential that was removed": {lastuse.Uses{secret("gone"): hour(12), {Type: usage.PublicKey, ID: "gone"}: hour(11)}, func(s *v1beta1.ApiClientStatus) {
			s.LastUsedTime = used(12)
		}},
		"other credentials": {lastuse.Uses{{Type: usage.Identity, ID: "ci"}: hour(5), {Type: usage.PublicKey, ID: "2026-02"}: hour(11)}, func(s *v1beta1.ApiClientStatus) {
			s.LastUsedTime, s.Credentials[3], s.Credentials[4] = used(11), keyUsed("2026-02", 11), identityUsed("ci", 5)
		}},
		"the name of a credential of another type": {lastuse.Uses{{Type: usage.Identity, ID: "s2"}: hour(9)}, func(*v1beta1.ApiClientStatus) {}},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := fullStatus(), fullStatus()
			c.want(&want)
			lastuse.Merge(&got, c.uses)
			testkit.Diff(t, "status", want, got)
		})
	}
}

func TestKeep(t *testing.T) {
	previous := fullStatus()
	next := v1beta1.ApiClientStatus{Credentials: []v1beta1.CredentialStatus{secretUsed("s0", 0), secretUsed("s1", 0), keyUsed("2026-02", 0), keyUsed("s1", 0)}}
	lastuse.Keep(&previous, &next, hour(10))
	want := v1beta1.ApiClientStatus{
		LastUsedTime: used(10),
		Credentials:  []v1beta1.CredentialStatus{secretUsed("s0", 0), secretUsed("s1", 10), keyUsed("2026-02", 9), keyUsed("s1", 0)},
	}
	testkit.Diff(t, "status", want, next)
	testkit.Diff(t, "the previous status was changed", fullStatus(), previous)

	// A time that no clock of a token server has would hide all later uses.
	lastuse.Keep(&previous, &next, hour(9).Add(-6*time.Minute))
	want = v1beta1.ApiClientStatus{Credentials: []v1beta1.CredentialStatus{secretUsed("s0", 0), secretUsed("s1", 0), keyUsed("2026-02", 0), keyUsed("s1", 0)}}
	testkit.Diff(t, "status with times in the future", want, next)
}
