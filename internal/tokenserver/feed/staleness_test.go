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

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Staleness is 0 while beacons arrive, and while the API server has no newer one. After that, it counts
// from the last arrival.
func TestStalenessCountsFromLastArrival(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
	const cut = 10*time.Minute + 2*time.Second // the last beacon before arrives after 10 minutes
	tests := map[string]struct {
		change func(*apiServer)
		want   map[time.Duration]time.Duration // staleness by time since the change
	}{
		"the operator is away": {
			change: func(a *apiServer) { a.away = true },
			want:   map[time.Duration]time.Duration{14 * time.Second: 0, time.Minute: 0, 10 * time.Hour: 0},
		},
		"the API server is unreachable": {
			change: func(a *apiServer) { a.reads, a.writes = errDown, errDown; a.watch.Stop() },
			want:   map[time.Duration]time.Duration{12 * time.Second: 0, 14 * time.Second: 16 * time.Second, time.Hour: time.Hour + 2*time.Second},
		},
		"only the secrets are forbidden": {
			change: func(a *apiServer) { a.reads = forbidden; a.watch.Stop() },
			want:   map[time.Duration]time.Duration{12 * time.Second: 0, 14 * time.Second: 16 * time.Second, time.Hour: time.Hour + 2*time.Second},
		},
		"the watch is silent, and it can't be replaced": {
			change: func(a *apiServer) { a.silent, a.watches = true, forbidden },
			want:   map[time.Duration]time.Duration{17 * time.Second: 0, 19 * time.Second: 21 * time.Second, time.Hour: time.Hour + 2*time.Second},
		},
		"heartbeats fail": {
			change: func(a *apiServer) { a.writes = errDown },
			want:   map[time.Duration]time.Duration{35 * time.Second: 0, time.Hour + 35*time.Second: 0},
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

// While beacons arrive, the state of the records is that of the last one, which is the same at all servers. A
// server that is cut off stays there. One that knows that the operator is away goes on.
func TestConfirmed(t *testing.T) {
	const cut = 10*time.Minute + 2*time.Second // the last beacon before arrives after 10 minutes
	for name, tc := range map[string]struct {
		change   func(*apiServer)
		after    time.Duration
		from, to time.Duration // the age of the state
	}{
		"beacons arrive":                {func(*apiServer) {}, 4 * time.Second, 6 * time.Second, 6 * time.Second},
		"the next beacon arrives":       {func(*apiServer) {}, 9 * time.Second, time.Second, time.Second},
		"cut off":                       {func(a *apiServer) { a.reads, a.writes = errDown, errDown; a.watch.Stop() }, time.Hour, time.Hour + 2*time.Second, time.Hour + 2*time.Second},
		"listed again":                  {func(a *apiServer) { a.watch.Stop(); a.watches = nil }, 7 * time.Second, 9 * time.Second, 9 * time.Second},
		"the operator is away":          {func(a *apiServer) { a.away = true }, time.Hour, 15 * time.Second, 35 * time.Second},
		"the operator's clock is ahead": {func(a *apiServer) { a.ahead = 30 * time.Second }, 12 * time.Second, 4 * time.Second, 4 * time.Second},
		"the operator's clock is slow":  {func(a *apiServer) { a.ahead = -time.Hour }, 13 * time.Second, 15 * time.Second, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &apiServer{}
				f, _ := start(t, api, "")
				time.Sleep(cut)
				api.set(tc.change)
				time.Sleep(tc.after)
				synctest.Wait()
				if age := time.Since(f.Confirmed()); age < tc.from || age > tc.to {
					t.Errorf("the state is %s old, want %s to %s", age, tc.from, tc.to)
				}
			})
		})
	}
}

// A server that has just listed the records has their state, too.
func TestConfirmedByList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{beacon: "1", written: time.Now().Add(-4 * time.Second)}
		f, _ := start(t, api, "")
		time.Sleep(2 * time.Second)
		if age := time.Since(f.Confirmed()); age != 6*time.Second {
			t.Errorf("the state is %s old after the list", age)
		}
	})
}

// A server that is cut off doesn't make the state younger, even if the operator's clock is ahead.
func TestConfirmedWithoutContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{ahead: time.Hour}
		f, _ := start(t, api, "")
		time.Sleep(10*time.Minute + time.Second)
		api.cut()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if age := time.Since(f.Confirmed()); age != 30*time.Minute+time.Second {
			t.Errorf("the state is %s old after 30 minutes without contact", age)
		}
	})
}

// A silent watch is replaced by one that starts with a list. The list proves that the records are
// current. Nothing is listed while the watch delivers.
func TestSilentWatchIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		time.Sleep(10 * time.Minute)
		before := api.listed()
		api.set(func(a *apiServer) { a.silent = true })
		time.Sleep(time.Hour)
		synctest.Wait()
		// A list proves it for 15 s, the beacon is read, and the watch has 5 s until it is replaced, which takes
		// up to 4.5 s.
		if lists := api.listed() - before; lists < 140 || lists > 180 {
			t.Errorf("%d lists in an hour of silent watches, want one after each 20 to 25 s", lists)
		}
		api.set(func(a *apiServer) { a.silent = false })
		time.Sleep(3 * time.Minute)
		testkit.Diff(t, "staleness", time.Duration(0), f.Staleness())
		before = api.listed()
		time.Sleep(time.Hour)
		testkit.Diff(t, "lists", 0, api.listed()-before)
	})
}

// After a rollback of the API server, the watch waits for a resource version that isn't reached soon. The
// server lists the records.
func TestRollbackIsNoticed(t *testing.T) {
	for name, beacon := range map[string]string{"older beacon": "3", "no beacon": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &apiServer{}
				f, _ := start(t, api, "")
				time.Sleep(10 * time.Minute)
				before := api.listed()
				api.set(func(a *apiServer) { a.silent, a.away, a.version, a.beacon = true, true, 3, beacon })
				time.Sleep(30 * time.Second)
				synctest.Wait()
				if lists, stale := api.listed()-before, f.Staleness(); lists != 1 || stale != 0 {
					t.Errorf("%d lists after the rollback, staleness %s, want one list", lists, stale)
				}
			})
		})
	}
}

// A server that starts before the first beacon isn't stale, and it receives the first one without a list.
func TestFirstBeacon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{away: true}
		f, _ := start(t, api, "")
		time.Sleep(10 * time.Minute)
		api.set(func(a *apiServer) { a.away = false })
		time.Sleep(10 * time.Minute)
		if got, lists := f.Staleness(), api.listed(); got != 0 || lists != 1 {
			t.Errorf("staleness %s after %d lists", got, lists)
		}
	})
}

// After an outage, the server is current again within seconds, without a list of all records.
func TestContactReturnsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		time.Sleep(10*time.Minute + 2*time.Second)
		before := api.listed()
		api.set(func(a *apiServer) {
			a.away = true
			a.reads, a.writes = fmt.Errorf("connecting: %w", syscall.ECONNREFUSED), errDown
			a.watch.Stop()
		})
		time.Sleep(10 * time.Minute)
		if got := f.Staleness(); got == 0 {
			t.Error("not stale during the outage")
		}
		api.set(func(a *apiServer) { a.reads, a.writes = nil, nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got, lists := f.Staleness(), api.listed()-before; got != 0 || lists != 0 {
			t.Errorf("staleness %s after the outage, %d lists", got, lists)
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
		time.Sleep(10*time.Minute + 2*time.Second)
		lastBeacon := time.Now().Add(-2 * time.Second)
		kill(t, stop, dir)
		api.set(func(a *apiServer) { a.reads = errDown })
		for range 2 {
			time.Sleep(5 * time.Second)
			restarted := time.Now()
			f, stop := start(t, api, dir)
			time.Sleep(time.Second)
			synctest.Wait()
			if got, want := f.Staleness(), time.Since(lastBeacon); got != want {
				t.Errorf("staleness %s after a restart, want %s", got, want)
			}
			if len(api.beatsSince(restarted)) == 0 {
				t.Error("the restored server has not written a heartbeat")
			}
			kill(t, stop, dir)
		}
	})
}

// A server that ends by itself tells the operator not to wait for it. The next process in its Pod therefore
// serves nothing until it has loaded the records, and has a Lease again.
func TestEndedServerLeavesNoRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, api := t.TempDir(), &apiServer{}
		_, stop := start(t, api, dir)
		time.Sleep(time.Minute)
		stop()
		api.set(func(a *apiServer) { a.reads = errDown })
		reg := registry.New()
		startWith(t, api, feed.Options{Registry: reg, SnapshotDir: dir})
		time.Sleep(time.Minute)
		if reg.Loaded() {
			t.Error("the server serves the records of one that has ended")
		}
		api.set(func(a *apiServer) { a.reads = nil })
		time.Sleep(time.Minute)
		if !reg.Loaded() {
			t.Error("the server has not loaded the records")
		}
	})
}

// A server that has never loaded the records counts from its start.
func TestUnloadedServerIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := start(t, &apiServer{reads: errDown}, "")
		time.Sleep(time.Minute)
		testkit.Diff(t, "staleness", time.Minute, f.Staleness())
	})
}
