package feed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

// While the API server is available, a heartbeat reports each change at once, and at most two are
// written per second.
func TestHeartbeatFollowsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		start(t, api, "")
		time.Sleep(10*time.Minute + 5*time.Second)
		changed := time.Now()
		version := api.change()
		synctest.Wait()
		beats := api.beatsSince(changed)
		if len(beats) != 1 || !beats[0].at.Equal(changed) || beats[0].version != version {
			t.Errorf("heartbeats %v after the change to version %s at %s", beats, version, changed)
		}
		for range 1000 {
			version = api.change()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(heartbeat.MinInterval)
		synctest.Wait()
		beats = api.beatsSince(changed)
		if last := beats[len(beats)-1]; len(beats) > 23 || last.version != version {
			t.Errorf("%d heartbeats in 10.5 s up to version %s, want %s", len(beats), last.version, version)
		}
	})
}

// While the API server is unavailable, the delays between attempts grow to at most 10 s.
func TestFailedHeartbeatsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		start(t, api, "")
		time.Sleep(10*time.Minute + 5*time.Second)
		cut := time.Now()
		api.cut()
		time.Sleep(10 * time.Minute)
		beats := api.beatsSince(cut)
		if len(beats) < 60 || len(beats) > 80 {
			t.Errorf("%d attempts in 10 minutes", len(beats))
		}
		distinct := map[time.Duration]bool{}
		for i, b := range beats[1:] {
			gap := b.at.Sub(beats[i].at)
			if least := min(8*time.Second, heartbeat.MinInterval<<i); gap < least || gap > heartbeat.MaxInterval+heartbeat.MinInterval {
				t.Errorf("attempt %d after %s", i+2, gap)
			}
			distinct[gap] = true
		}
		if len(distinct) < 10 {
			t.Errorf("the delays are not random: %v", distinct)
		}
	})
}

// When the API server is available again, the heartbeat doesn't wait for the delay to end.
func TestHeartbeatReturnsWithWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		time.Sleep(10*time.Minute + 5*time.Second)
		api.cut()
		time.Sleep(10 * time.Minute)
		api.set(func(a *apiServer) { a.reads = nil })
		for f.Staleness() > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		back := time.Now()
		api.set(func(a *apiServer) { a.writes = nil })
		time.Sleep(heartbeat.MinInterval)
		synctest.Wait()
		if beats := api.beatsSince(back.Add(-10 * time.Millisecond)); len(beats) == 0 {
			t.Error("no heartbeat after the list")
		}
	})
}
