package feed_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

func request(name string, at time.Time) heartbeat.Refresh {
	return heartbeat.Refresh{Realm: "acme", Issuer: name, At: at.UTC().Truncate(time.Millisecond)}
}

// A request for keys is in the next heartbeat, which isn't delayed, and stays there for two minutes.
func TestRequestForKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		time.Sleep(10*time.Minute + 5*time.Second)
		asked := time.Now()
		f.RequestKeys("acme", "github")
		f.RequestKeys("acme", "gitlab")
		synctest.Wait()
		time.Sleep(heartbeat.MinInterval)
		synctest.Wait()
		beats := api.beatsSince(asked)
		want := []heartbeat.Refresh{request("github", asked), request("gitlab", asked)}
		if len(beats) == 0 || len(beats) > 2 {
			t.Fatalf("%d heartbeats within 0.5 s after the requests, want 1 or 2", len(beats))
		}
		testkit.Diff(t, "requests in the heartbeat", want, beats[len(beats)-1].requests)
		time.Sleep(115 * time.Second)
		synctest.Wait()
		beats = api.beatsSince(asked)
		testkit.Diff(t, "requests after 115 s", want, beats[len(beats)-1].requests)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		beats = api.beatsSince(asked)
		if last := beats[len(beats)-1]; last.requests != nil {
			t.Errorf("requests after 135 s: %v", last.requests)
		}
	})
}

// A flood of tokens with unknown keys repeats a request once a minute, with few writes.
func TestFloodOfRequestsForKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		time.Sleep(10*time.Minute + 5*time.Second)
		began := time.Now()
		var flood sync.WaitGroup
		for range 10 {
			flood.Go(func() {
				for range 6000 { // ten minutes
					f.RequestKeys("acme", "github")
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		flood.Wait()
		beats := api.beatsSince(began)
		distinct := map[heartbeat.Refresh]bool{}
		for _, b := range beats {
			for _, r := range b.requests {
				distinct[r] = true
			}
		}
		// Without requests, the heartbeat is written every 10.5 s: 57 times.
		if len(distinct) != 10 || len(beats) > 57+10 {
			t.Errorf("%d different requests in %d heartbeats, want 10 in at most 67", len(distinct), len(beats))
		}
	})
}
