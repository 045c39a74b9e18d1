package beacon_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
)

var errDown = errors.New("connection refused")

func TestMonitor(t *testing.T) {
	read := func(version string, err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return version, err }
	}
	for name, test := range map[string]struct {
		read           func(context.Context) (string, error)
		after          func(*beacon.Monitor) // 18 s after the beacon 100 has arrived
		wantStaleness  time.Duration         // 25 s after the beacon 100 has arrived
		wantLists      int
		wantRolledBack int
	}{
		"newer":                 {read: read("101", nil), wantStaleness: 25 * time.Second, wantLists: 1},
		"newer, and it arrives": {read: read("101", nil), after: func(m *beacon.Monitor) { m.Arrived("101") }},
		"newer, and an older arrives": {
			read: read("120", nil), after: func(m *beacon.Monitor) { m.Arrived("110") },
			wantStaleness: 25 * time.Second, wantLists: 1,
		},
		"lower":                      {read: read("99", nil), wantStaleness: 25 * time.Second, wantRolledBack: 1},
		"gone":                       {read: read("", nil), wantStaleness: 25 * time.Second, wantRolledBack: 1},
		"gone, and that is reported": {read: read("", nil), after: (*beacon.Monitor).Deleted},
		"no answer in time": {
			read: func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			},
			wantStaleness: 25 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists, rollbacks := 0, 0
				m := beacon.NewMonitor(beacon.Options{
					Read: test.read, List: func() { lists++ }, RolledBack: func() { rollbacks++ }, Now: time.Now,
				})
				go m.Run(t.Context())
				m.Listed("90")
				time.Sleep(9 * time.Second)
				m.Arrived("100")
				time.Sleep(18 * time.Second)
				if test.after != nil {
					test.after(m)
				}
				time.Sleep(7 * time.Second)
				synctest.Wait()
				if got := m.Staleness(); got != test.wantStaleness || lists != test.wantLists || rollbacks != test.wantRolledBack {
					t.Errorf("staleness %s, %d lists, %d rollbacks, want %s, %d, %d", got, lists, rollbacks, test.wantStaleness, test.wantLists, test.wantRolledBack)
				}
			})
		})
	}
}

// Before the first list, there is nothing to compare a beacon with.
func TestMonitorBeforeFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := func() { t.Error("called") }
		m := beacon.NewMonitor(beacon.Options{
			Read: func(context.Context) (string, error) { fail(); return "", nil }, List: fail, RolledBack: fail, Now: time.Now,
		})
		go m.Run(t.Context())
		m.Restore(time.Now().Add(-time.Hour))
		time.Sleep(time.Minute)
		if got := m.Staleness(); got != time.Hour+time.Minute {
			t.Errorf("staleness %s", got)
		}
		m.Listed("")
		if got := m.Staleness(); got != 0 {
			t.Errorf("staleness %s after a list", got)
		}
	})
}

// What failed during an outage is repeated once, when the first beacon arrives.
func TestMonitorReportsRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recoveries := 0
		m := beacon.NewMonitor(beacon.Options{
			Read: func(context.Context) (string, error) { return "", errDown }, Recovered: func() { recoveries++ }, Now: time.Now,
		})
		go m.Run(t.Context())
		m.Listed("90")
		m.Arrived("100")
		synctest.Wait()
		if recoveries != 0 {
			t.Errorf("%d recoveries without an outage", recoveries)
		}
		time.Sleep(time.Minute)
		for _, version := range []string{"110", "120"} {
			m.Arrived(version)
			synctest.Wait()
			if recoveries != 1 {
				t.Errorf("%d recoveries after beacon %s", recoveries, version)
			}
		}
	})
}
