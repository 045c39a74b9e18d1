package lastuse_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
	"github.com/realmkeeper/realmkeeper/internal/usage"
)

// unknownDelay is how long a use of an unknown client or credential is kept.
const unknownDelay = 30 * time.Second

// The status of a client that is used all the time is written once per period, regardless of the
// number of servers and credentials.
func TestOneWritePerPeriod(t *testing.T) {
	f := running(t)
	f.now = f.now.Truncate(time.Hour)
	c := newClient("a", "s1")
	c.Status.Secrets = append(c.Status.Secrets, v1beta1.ClientSecretStatus{ID: "s2"})
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
	for _, s := range c.Status.Secrets {
		if s.LastUsedTime == nil || s.LastUsedTime.Before(c.Status.LastUsedTime) {
			t.Errorf("secret %s was last used at %v, the client at %v", s.ID, s.LastUsedTime, c.Status.LastUsedTime)
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
	c.Status.Secrets = append(c.Status.Secrets, v1beta1.ClientSecretStatus{ID: "s2"})
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

var github = v1beta1.FederatedIdentity{Issuer: "github", Subject: "repo:acme/shop"}

// fullClient returns a client with credentials of each type, which was used at 10:00.
func fullClient() *v1beta1.ApiClient {
	return &v1beta1.ApiClient{
		Spec: v1beta1.ApiClientSpec{
			PublicKeys:      []v1beta1.PublicKey{{KeyID: "2026-01"}, {KeyID: "2026-02"}},
			ServiceAccounts: []v1beta1.ServiceAccountReference{{Name: "billing"}},
			FederatedIdentities: []v1beta1.FederatedIdentity{
				github, {Issuer: v1beta1.IssuerKubernetes, Subject: "system:serviceaccount:default:reports"},
			},
		},
		Status: v1beta1.ApiClientStatus{
			LastUsedTime: used(10),
			Secrets:      []v1beta1.ClientSecretStatus{{ID: "s1", LastUsedTime: used(10)}, {ID: "s2"}},
			Credentials:  []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypePublicKey, ID: "2026-02", LastUsedTime: *used(9)}},
		},
	}
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct {
		uses lastuse.Uses
		want func(*v1beta1.ApiClientStatus)
	}{
		"an earlier use": {lastuse.Uses{secret("s1"): hour(8), {Type: usage.PublicKey, ID: "2026-02"}: hour(8)}, func(*v1beta1.ApiClientStatus) {}},
		"a later use": {lastuse.Uses{secret("s1"): hour(11)}, func(s *v1beta1.ApiClientStatus) {
			s.LastUsedTime, s.Secrets[0].LastUsedTime = used(11), used(11)
		}},
		"a credential that was removed": {lastuse.Uses{secret("gone"): hour(12), {Type: usage.PublicKey, ID: "gone"}: hour(11)}, func(s *v1beta1.ApiClientStatus) {
			s.LastUsedTime = used(12)
		}},
		"other credentials": {lastuse.Uses{
			{Type: usage.ServiceAccount, ID: "reports"}:         hour(7),
			{Type: usage.ServiceAccount, ID: "billing"}:         hour(6),
			{Type: usage.FederatedIdentity, ID: github.ID()}:    hour(5),
			{Type: usage.PublicKey, ID: "2026-02"}:              hour(11),
			{Type: usage.FederatedIdentity, ID: "github-other"}: hour(4),
		}, func(s *v1beta1.ApiClientStatus) {
			s.LastUsedTime = used(11)
			s.Credentials = []v1beta1.CredentialStatus{
				{Type: v1beta1.CredentialTypeFederatedIdentity, ID: github.ID(), LastUsedTime: *used(5)},
				{Type: v1beta1.CredentialTypePublicKey, ID: "2026-02", LastUsedTime: *used(11)},
				{Type: v1beta1.CredentialTypeServiceAccount, ID: "billing", LastUsedTime: *used(6)},
				{Type: v1beta1.CredentialTypeServiceAccount, ID: "reports", LastUsedTime: *used(7)},
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cached, want := fullClient(), fullClient().Status
			c.want(&want)
			got := cached.Status
			lastuse.Merge(&cached.Spec, &got, c.uses)
			testkit.Diff(t, "status", want, got)
			testkit.Diff(t, "the cached object was changed", fullClient(), cached)
		})
	}
}

func TestKeepDropsRemovedCredentials(t *testing.T) {
	c := fullClient()
	c.Status.Credentials = append(c.Status.Credentials, v1beta1.CredentialStatus{Type: v1beta1.CredentialTypePublicKey, ID: "gone", LastUsedTime: *used(10)})
	next := v1beta1.ApiClientStatus{Secrets: []v1beta1.ClientSecretStatus{{ID: "s0"}, {ID: "s1"}}}
	lastuse.Keep(&c.Spec, &c.Status, &next)
	want := v1beta1.ApiClientStatus{
		LastUsedTime: used(10),
		Secrets:      []v1beta1.ClientSecretStatus{{ID: "s0"}, {ID: "s1", LastUsedTime: used(10)}},
		Credentials:  []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypePublicKey, ID: "2026-02", LastUsedTime: *used(9)}},
	}
	testkit.Diff(t, "status", want, next)
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

func TestQuietNeedsReportsOfServers(t *testing.T) {
	f := newFixture(t)
	c := newClient("a", "s1")
	f.heartbeat(server, f.now, 0)
	if got := f.quiet(c, "s1", time.Time{}); got.ok {
		t.Errorf("got %v before the state was read", got)
	}
	f.flush()
	if got := f.quiet(c, "s1", time.Time{}); !got.ok {
		t.Errorf("got %v, want a known period", got)
	}
	f.store.Remove(f.heartbeat(server, f.now, 0))
	if got := f.quiet(c, "s1", time.Time{}); got.ok {
		t.Errorf("got %v without a token server", got)
	}
}

func TestQuietUntilAllServersHaveReported(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	f.heartbeat("one", f.now.Add(-time.Minute), 0)
	f.heartbeat("two", f.now.Add(-time.Hour), 0)
	if got, want := f.quiet(c, "s1", time.Time{}).until, f.now.Add(-time.Hour); !got.Equal(want) {
		t.Errorf("quiet until %s, want the report of the last server at %s", got, want)
	}
	f.heartbeat("two", f.now.Add(time.Hour), 0)
	f.heartbeat("one", f.now.Add(time.Hour), 0)
	if got, want := f.quiet(c, "s1", time.Time{}).until, f.now; !got.Equal(want) {
		t.Errorf("quiet until %s in the future, want now", got)
	}
	f.heartbeat("three", time.Time{}, 0)
	if got := f.quiet(c, "s1", time.Time{}).until; !got.IsZero() {
		t.Errorf("quiet until %s, although a server has never reported", got)
	}
}
