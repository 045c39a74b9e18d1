package feed_test

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Staleness is 0 while the watch delivers. After that, it counts from the last delivery.
func TestStalenessCountsFromLastDelivery(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
	const cut = 10*time.Minute + 20*time.Second // the last bookmark before arrives after 10 minutes
	tests := map[string]struct {
		change func(*apiServer)
		want   map[time.Duration]time.Duration // staleness by time since the change
	}{
		"no record changes": {
			change: func(*apiServer) {},
			want:   map[time.Duration]time.Duration{time.Second: 0, 50 * time.Second: 0, 10 * time.Hour: 0},
		},
		"the API server is unreachable": {
			change: func(a *apiServer) { a.reads, a.writes = errDown, errDown; a.watch.Stop() },
			// The last heartbeat succeeds at the time of the change or up to 10 s before.
			want: map[time.Duration]time.Duration{10 * time.Second: 0, 31 * time.Second: 51 * time.Second, time.Hour: time.Hour + 20*time.Second},
		},
		"the watch is forbidden, and heartbeats succeed": {
			change: func(a *apiServer) { a.reads = forbidden; a.watch.Stop() },
			want:   map[time.Duration]time.Duration{69 * time.Second: 0, 71 * time.Second: 91 * time.Second, time.Hour: time.Hour + 20*time.Second},
		},
		"the watch is silent, and it can't be replaced": {
			change: func(a *apiServer) { a.silent, a.reads = true, forbidden },
			want:   map[time.Duration]time.Duration{69 * time.Second: 0, 71 * time.Second: 91 * time.Second, time.Hour: time.Hour + 20*time.Second},
		},
		"the watch is silent, and heartbeats aren't answered": {
			change: func(a *apiServer) { a.silent, a.writes = true, errDown },
			want:   map[time.Duration]time.Duration{31 * time.Second: 51 * time.Second, 69 * time.Second: 89 * time.Second},
		},
		"heartbeats are forbidden": {
			change: func(a *apiServer) { a.writes = forbidden },
			want:   map[time.Duration]time.Duration{35 * time.Second: 0, time.Hour + 35*time.Second: 0},
		},
		"heartbeats fail, and bookmarks arrive": {
			change: func(a *apiServer) { a.writes = apierrors.NewInternalError(errDown) },
			want:   map[time.Duration]time.Duration{31 * time.Second: 51 * time.Second, 41 * time.Second: 0, time.Hour + 35*time.Second: 55 * time.Second},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &apiServer{}
				f, _ := start(t, api, "")
				time.Sleep(cut)
				if got := f.Staleness(); got != 0 {
					t.Fatalf("staleness %s before the change", got)
				}
				changed := time.Now()
				api.set(tc.change)
				for _, after := range slices.Sorted(maps.Keys(tc.want)) {
					time.Sleep(time.Until(changed.Add(after)))
					synctest.Wait()
					if got, want := f.Staleness(), tc.want[after]; got != want {
						t.Errorf("staleness %s after %s, want %s", got, after, want)
					}
				}
			})
		})
	}
}

// A silent watch is replaced, because its connection may be broken. The list that replaces it proves
// that the records are current.
func TestSilentWatchIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		time.Sleep(10 * time.Minute)
		before := api.listed()
		api.set(func(a *apiServer) { a.silent = true })
		time.Sleep(time.Hour)
		synctest.Wait()
		if lists := api.listed() - before; lists < 30 || lists > 41 {
			t.Errorf("%d lists in an hour of silent watches, want one after each 90 s", lists)
		}
		if got := f.Staleness(); got != 0 {
			t.Errorf("staleness %s after a list", got)
		}
		api.set(func(a *apiServer) { a.silent = false })
		time.Sleep(3 * time.Minute)
		before = api.listed()
		time.Sleep(time.Hour)
		if lists := api.listed() - before; lists != 0 {
			t.Errorf("%d lists although the watch delivers", lists)
		}
	})
}

// After an outage, the server is current again as soon as the API server responds, even if no record
// has changed. The reflector would resume the watch after a refused connection.
func TestContactReturnsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		time.Sleep(10*time.Minute + 20*time.Second)
		api.set(func(a *apiServer) {
			a.reads, a.writes = fmt.Errorf("connecting: %w", syscall.ECONNREFUSED), errDown
			a.watch.Stop()
		})
		time.Sleep(10 * time.Minute)
		api.set(func(a *apiServer) { a.reads, a.writes = nil, nil })
		time.Sleep(5 * time.Second) // the reflector retries after at most 4.5 s
		synctest.Wait()
		if got := f.Staleness(); got != 0 {
			t.Errorf("staleness %s after the outage", got)
		}
	})
}

// After an outage, changes may be missing until the watch delivers, even if heartbeats succeed.
func TestHeartbeatDoesNotRestoreContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		time.Sleep(10*time.Minute + 5*time.Second)
		api.cut()
		time.Sleep(45 * time.Second)
		api.set(func(a *apiServer) { a.writes = nil })
		back := time.Now()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if beats := api.beatsSince(back); len(beats) == 0 {
			t.Fatal("no heartbeat")
		}
		if got := f.Staleness(); got != 65*time.Second {
			t.Errorf("staleness %s while the watch fails, want 1m5s", got)
		}
	})
}

// A restarted server is as stale as the previous process was, however often it restarts, and even
// if heartbeats succeed.
func TestRestoredRecordsAreStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		api := &apiServer{}
		_, stop := start(t, api, dir)
		time.Sleep(10*time.Minute + 20*time.Second)
		lastBookmark := time.Now().Add(-20 * time.Second)
		stop()
		api.set(func(a *apiServer) { a.reads = errDown })
		for range 2 {
			time.Sleep(5 * time.Second)
			restarted := time.Now()
			f, stop := start(t, api, dir)
			time.Sleep(time.Second)
			synctest.Wait()
			if got, want := f.Staleness(), time.Since(lastBookmark); got != want {
				t.Errorf("staleness %s after a restart, want %s", got, want)
			}
			if len(api.beatsSince(restarted)) == 0 {
				t.Error("the restored server has not written a heartbeat")
			}
			stop()
		}
	})
}

// A server that has never loaded the records counts from its start.
func TestUnloadedServerIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := start(t, &apiServer{reads: errDown}, "")
		time.Sleep(time.Minute)
		if got := f.Staleness(); got != time.Minute {
			t.Errorf("staleness %s after a minute", got)
		}
	})
}
