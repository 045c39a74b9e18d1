package lastuse_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

type quiet struct {
	since, until time.Time
	ok           bool
}

func (f *fixture) quiet(c *v1alpha1.ApiClient, id string, recorded time.Time) quiet {
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

func TestQuietSinceTheLatestUse(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	f.heartbeat(server, f.now, 0)
	f.publish(report("one", c, secret("s1"), f.now.Add(-3*time.Hour)))
	f.publish(report("two", c, secret("s1"), f.now.Add(-2*time.Hour)))
	for name, recorded := range map[string]time.Time{"not recorded": {}, "recorded before": f.now.Add(-10 * time.Hour)} {
		if got, want := f.quiet(c, "s1", recorded).since, time.Date(2026, 3, 2, 11, 0, 0, 0, time.UTC); !got.Equal(want) {
			t.Errorf("%s: quiet since %s, want the end of the hour of the latest use, %s", name, got, want)
		}
	}
	if got, want := f.quiet(c, "s1", f.now.Truncate(time.Hour)).since, time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("quiet since %s, want the end of the recorded hour, %s", got, want)
	}
	if got, want := f.quiet(c, "s2", time.Time{}).since, f.api.lost(t); !got.Equal(want) {
		t.Errorf("an unused credential is quiet since %s, want the time before which uses may be missing, %s", got, want)
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
