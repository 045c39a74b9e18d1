package feed_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
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

// The heartbeat that reports a record also reports that its next key isn't decrypted.
func TestHeartbeatReportsUndecryptedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		start(t, api, "")
		sealed := func(state signingkey.State) signingkey.Key {
			key := newKey(t, state)
			return key.Seal(signingkey.Sealed{RealmUID: uidOf("acme"), KeyID: "1", EncryptedDataKey: []byte("x"), Ciphertext: []byte("x")})
		}
		active, pending := sealed(signingkey.Active), sealed(signingkey.Pending)
		time.Sleep(5 * time.Second) // so that no bookmark arrives in the same instant as a change
		for name, step := range map[string]struct {
			keys []signingkey.Key
			want []string
		}{
			"no next key":              {[]signingkey.Key{active}, nil},
			"next key":                 {[]signingkey.Key{active, pending}, []string{"acme"}},
			"next key in plaintext":    {[]signingkey.Key{active, newKey(t, signingkey.Pending)}, nil},
			"active key in plaintext":  {[]signingkey.Key{newKey(t, signingkey.Active), pending}, []string{"acme"}},
			"all keys are in the past": {[]signingkey.Key{newKey(t, signingkey.Active), sealed(signingkey.Retiring)}, nil},
		} {
			time.Sleep(time.Minute)
			changed := time.Now()
			version := api.deliver(realmRecord(t, "acme", step.keys...))
			synctest.Wait()
			for _, b := range api.beatsSince(changed) {
				if b.version == version && !slices.Equal(b.undecrypted, step.want) {
					t.Errorf("%s: got %v, want %v", name, b.undecrypted, step.want)
				}
			}
			if beats := api.beatsSince(changed); len(beats) == 0 || beats[len(beats)-1].version != version {
				t.Errorf("%s: heartbeats %v, want version %s", name, beats, version)
			}
		}
	})
}
