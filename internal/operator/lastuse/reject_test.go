package lastuse_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// The uses in a rejected report are lost. They must not make a credential look unused.
func TestRejectedReports(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*fixture, *corev1.ConfigMap)
		want     metrics.RejectionReason
		wantLost bool
	}{
		"damaged":          {func(_ *fixture, o *corev1.ConfigMap) { o.Data[usage.DataKey] = "{" }, metrics.Damaged, true},
		"another server's": {func(_ *fixture, o *corev1.ConfigMap) { o.Name = usage.Name("other", 0) }, metrics.Damaged, true},
		"another name":     {func(_ *fixture, o *corev1.ConfigMap) { o.Name = "notes" }, metrics.NotAServer, false},
		"from the future":  {func(f *fixture, _ *corev1.ConfigMap) { f.now = f.now.Add(-2 * time.Hour) }, metrics.Future, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := running(t)
			before := f.api.lost(t)
			client := newClient("a", "s1")
			f.store.Observe(client)
			data := testkit.Value(report(server, client, secret("s1"), f.now).Encode())(t)
			object := usage.ConfigMap(namespace, server, 0, data)
			c.change(f, object)
			f.api.put(object)
			f.store.Observe(object)
			f.store.Observe(object) // A watch can repeat an object.
			testkit.Diff(t, "rejections", []metrics.RejectionReason{c.want}, f.rejected)
			if enqueued := f.flush(); len(enqueued) > 0 || len(f.store.Uses(client.UID)) > 0 {
				t.Errorf("a rejected report was merged: %v", enqueued)
			}
			lost := f.api.lost(t)
			if c.wantLost && (lost.Before(f.now) || lost.Sub(f.now) > time.Minute) || !c.wantLost && !lost.Equal(before) {
				t.Errorf("uses may be missing before %s; it is %s", lost, f.now)
			}
			if f.heartbeat(server, f.now, 0); c.wantLost && f.quiet(client, "s1", time.Time{}).since.Before(f.now) {
				t.Error("a credential looks unused after a rejected report")
			}
			if kept := f.api.configMaps[object.Name] != nil; kept == c.wantLost {
				t.Errorf("kept: %t; only reports of token servers are deleted", kept)
			}
		})
	}
}

// As long as a server with a wrong clock runs, it reports uses at wrong times.
func TestWrongClockOfServer(t *testing.T) {
	for name, skew := range map[string]time.Duration{"behind": -24 * time.Hour, "ahead": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := running(t)
			c := newClient("a", "s1")
			f.heartbeat("other", f.now, 0)
			f.heartbeat(server, f.now.Add(skew), skew)
			for range 3 {
				f.now = f.now.Add(10 * time.Second)
				f.heartbeat("other", f.now, 0)
				f.heartbeat(server, f.now.Add(skew), skew)
				if got := f.quiet(c, "s1", time.Time{}); got.since.Before(f.now) || !got.until.IsZero() {
					t.Errorf("quiet since %s until %s at %s, although a clock is wrong", got.since, got.until, f.now)
				}
			}
			f.store.Remove(f.heartbeat(server, f.now, skew))
			f.flush()
			if got, lost := f.quiet(c, "s1", time.Time{}), f.api.lost(t); got.since.Before(f.now) || lost.Before(f.now) {
				t.Errorf("quiet since %s after the server with the wrong clock has ended at %s", got.since, f.now)
			}
			testkit.Diff(t, "rejections", []metrics.RejectionReason{metrics.WrongClock}, f.rejected)
		})
	}
}

// During a rolling update, older token servers truncate times to another resolution. These times
// can look earlier or later than the use.
func TestOtherResolutionOfServer(t *testing.T) {
	f := running(t)
	c := newClient("a", "s1")
	for range 3 {
		f.now = f.now.Add(10 * time.Second)
		lease := f.heartbeat(server, f.now, 0)
		lease.Annotations[heartbeat.ResolutionAnnotation] = "24h0m0s"
		f.store.Observe(lease)
		f.now = f.now.Add(10 * time.Second)
		lease = lease.DeepCopy()
		lease.Spec.RenewTime = new(metav1.NewMicroTime(f.now))
		f.store.Observe(lease)
		if got := f.quiet(c, "s1", time.Time{}); got.since.Before(f.now) || !got.until.IsZero() {
			t.Errorf("quiet since %s until %s at %s", got.since, got.until, f.now)
		}
	}
	if len(f.rejected) > 0 {
		t.Errorf("rejected: %v; a rolling update must not count as an error", f.rejected)
	}
}

func TestLossIsPersistedBeforeItsReportIsDeleted(t *testing.T) {
	f := running(t)
	lost := f.now.Add(-time.Minute).Truncate(time.Second)
	object := f.publish(&usage.Report{Server: server, Lost: lost})
	f.api.fail = errors.New("unavailable")
	if f.flush(); f.api.configMaps[object.Name] == nil {
		t.Fatal("the report was deleted, although its loss was not persisted")
	}
	f.api.fail = nil
	f.flush()
	if got := f.api.lost(t); got.Before(lost) || f.api.configMaps[object.Name] != nil {
		t.Errorf("uses may be missing before %s, want %s", got, lost)
	}
	f.restart()
	f.sync()
	f.heartbeat(server, f.now, 0)
	if got := f.quiet(newClient("a", "s1"), "s1", time.Time{}).since; got.Before(lost) {
		t.Errorf("quiet since %s after a restart, want %s", got, lost)
	}
}

// A compromised token server can report a loss every second. The state is written at most once a minute.
func TestLossesCostFewWrites(t *testing.T) {
	f := running(t)
	f.now = f.now.Truncate(time.Minute)
	f.api.writes = nil
	for range 120 {
		f.now = f.now.Add(time.Second)
		f.publish(&usage.Report{Server: server, Lost: f.now})
		f.flush()
	}
	states := slices.DeleteFunc(f.api.writes, func(write string) bool { return write != "apply "+lastuse.StateName })
	if len(states) != 2 {
		t.Errorf("the state was written %d times in 2 minutes, want 2", len(states))
	}
}

func TestLoseFailsUntilPersisted(t *testing.T) {
	f := newFixture(t)
	if err := f.store.Lose(t.Context(), f.api, f.now); err == nil {
		t.Error("no error, although the state was not read")
	}
	f.flush()
	f.api.fail = errors.New("unavailable")
	if err := f.store.Lose(t.Context(), f.api, f.now.Add(time.Hour)); !errors.Is(err, f.api.fail) {
		t.Errorf("got error %v, want %v", err, f.api.fail)
	}
	f.api.fail = nil
	if err := f.store.Lose(t.Context(), f.api, f.now.Add(time.Hour)); err != nil || f.api.lost(t).Before(f.now.Add(time.Hour)) {
		t.Errorf("persisted %s, error %v", f.api.lost(t), err)
	}
}

// The operator doesn't know what happened before it wrote the state, or while times had another
// resolution.
func TestUnknownPastCountsAsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		data map[string]string
		want bool
	}{
		"same":                {map[string]string{"lost": "2026-02-01T00:00:00Z", "resolution": "1h0m0s"}, false},
		"no state":            {nil, true},
		"another resolution":  {map[string]string{"lost": "2026-02-01T00:00:00Z", "resolution": "24h0m0s"}, true},
		"damaged time":        {map[string]string{"lost": "yesterday", "resolution": "1h0m0s"}, true},
		"from the far future": {map[string]string{"lost": "2126-02-01T00:00:00Z", "resolution": "1h0m0s"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if c.data != nil {
				state := usage.ConfigMap(namespace, server, 0, "")
				state.Name, state.Labels[usage.Label], state.Data = lastuse.StateName, "operator", c.data
				f.api.put(state)
			}
			f.sync()
			f.flush()
			lost := f.api.lost(t)
			if got := !lost.Before(f.now) && lost.Before(f.now.Add(time.Hour)); got != c.want {
				t.Errorf("uses may be missing before %s; it is %s", lost, f.now)
			}
			if wrote := len(f.api.writes) > 0; wrote != c.want {
				t.Errorf("writes: %v", f.api.writes)
			}
			f.sync()
			f.now = f.now.Add(time.Hour)
			if f.api.writes = nil; f.flush() != nil || len(f.api.writes) > 0 {
				t.Errorf("writes after that: %v", f.api.writes)
			}
		})
	}
}

func TestDeletedStateIsWrittenAgain(t *testing.T) {
	f := running(t)
	lost := f.api.lost(t)
	f.store.Remove(f.api.configMaps[lastuse.StateName])
	delete(f.api.configMaps, lastuse.StateName)
	f.flush()
	if got := f.api.lost(t); !got.Equal(lost) {
		t.Errorf("uses may be missing before %s, want %s as before", got, lost)
	}
}

// A Lease that was not renewed says nothing about the server's clock.
func TestOldLeaseIsNotAWrongClock(t *testing.T) {
	f := running(t)
	lease := f.heartbeat(server, f.now, 0)
	f.now = f.now.Add(time.Hour)
	f.store.Observe(lease)
	if len(f.rejected) > 0 || f.flush() != nil || !f.api.lost(t).Before(f.now.Add(-time.Hour)) {
		t.Errorf("rejected: %v", f.rejected)
	}
}
