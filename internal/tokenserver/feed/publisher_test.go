package feed_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// While the API server is available, a heartbeat reports each change immediately, and at most two are
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

// While the API server is unavailable, the delays between attempts grow to at most 10 s, until the records
// are too stale.
func TestFailedHeartbeatsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		start(t, api, "")
		time.Sleep(10*time.Minute + 5*time.Second)
		cut := time.Now()
		api.cut()
		time.Sleep(10 * time.Minute)
		beats := api.beatsSince(cut)
		if len(beats) < 30 || len(beats) > 40 || len(api.beatsSince(cut.Add(5*time.Minute))) > 0 {
			t.Errorf("%d attempts in 10 minutes, want 30 to 40 in the first 5", len(beats))
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

// A server whose records are too stale doesn't renew its Lease, even if the API server answers, until the
// watch delivers again.
func TestStaleServerDoesNotRenew(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
	for limit, last := range map[time.Duration]time.Duration{0: 5 * time.Minute, 2 * time.Minute: 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			api := &apiServer{}
			startWith(t, api, feed.Options{MaxStaleness: limit})
			time.Sleep(10*time.Minute + time.Second)
			current := time.Now().Add(-time.Second) // the last bookmark
			api.set(func(a *apiServer) { a.reads = forbidden; a.watch.Stop() })
			time.Sleep(20 * time.Minute)
			if n := len(api.beatsSince(current.Add(last - heartbeat.MaxInterval))); n == 0 {
				t.Errorf("no heartbeats with a staleness of nearly %s", last)
			}
			if beats := api.beatsSince(current.Add(last + 1)); len(beats) > 0 {
				t.Errorf("%d heartbeats with a staleness of more than %s", len(beats), last)
			}
			api.set(func(a *apiServer) { a.reads = nil })
			back := time.Now()
			time.Sleep(5 * time.Second) // the reflector retries after at most 4.5 s
			synctest.Wait()
			if len(api.beatsSince(back)) == 0 {
				t.Error("no heartbeat after the list")
			}
		})
	}
}

// The operator knows of a server before the server lists the records.
func TestLeasePrecedesFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{writes: errDown}
		start(t, api, "")
		time.Sleep(time.Minute)
		if api.listed() > 0 {
			t.Error("the server lists the records without a Lease")
		}
		back := time.Now()
		api.set(func(a *apiServer) { a.writes = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		beats := api.beatsSince(back)
		if len(beats) != 2 || beats[0].version != "" || beats[0].lists != 0 || beats[1].version == "" || beats[1].lists != 1 {
			t.Errorf("heartbeats %+v, want one without a version before the list, and one with its version", beats)
		}
	})
}

// A server that ends while it joins deletes the Lease after it was written, or the operator would wait for it.
func TestLeaseOfEndedServerIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := clientOf((&apiServer{}).client())
		late := &lateLeases{Leases: client.Leases}
		client.Leases = late
		f := feed.New(feed.Options{
			Client: client, Namespace: "records", Server: "a", Now: time.Now, Registry: registry.New(),
			Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		})
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, end)
		f.Run(ctx)
		testkit.Diff(t, "what the API server did with the Lease", []string{"write", "delete"}, late.done)
	})
}

// lateLeases writes a Lease two seconds after it was requested, even if the request has been canceled.
type lateLeases struct {
	feed.Leases

	mu   sync.Mutex
	done []string
}

func (l *lateLeases) did(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, what)
}

func (l *lateLeases) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*coordinationv1.Lease, error) {
	time.Sleep(2 * time.Second)
	l.did("write")
	return l.Leases.Patch(ctx, name, kind, data, o, subresources...)
}

func (l *lateLeases) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	l.did("delete")
	return l.Leases.Delete(ctx, name, o)
}

// Until a restarted server has loaded the records, its Lease keeps what the previous process reported,
// whether or not the server serves the saved records.
func TestLeaseKeepsPreviousReport(t *testing.T) {
	for name, saved := range map[string]bool{"no saved records": false, "saved records": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := ""
				if saved {
					dir = t.TempDir()
					_, stop := start(t, &apiServer{}, dir)
					kill(t, stop, dir)
				}
				api := &apiServer{reads: errDown, version: 200, previous: &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: "records", Name: heartbeat.LeaseName("a"), Annotations: map[string]string{
						heartbeat.LoadedAnnotation: "100", heartbeat.UnreadableAnnotation: "broken",
						heartbeat.UndecryptedPendingAnnotation: "acme", heartbeat.UndecryptedActiveAnnotation: "shop",
					}},
					Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: new(metav1.NowMicro())},
				}}
				reg := registry.New()
				startWith(t, api, feed.Options{SnapshotDir: dir, Registry: reg})
				time.Sleep(time.Minute)
				synctest.Wait()
				testkit.Diff(t, "loaded", saved, reg.Loaded())
				beats := api.beatsSince(time.Time{})
				for _, b := range beats {
					if b.version != "100" || !slices.Equal(b.next, []string{"acme"}) || !slices.Equal(b.active, []string{"shop"}) || !slices.Equal(b.unreadable, []string{"broken"}) {
						t.Errorf("heartbeat %+v before the list", b)
					}
				}
				if len(beats) < 5 {
					t.Errorf("%d heartbeats in a minute", len(beats))
				}
				api.set(func(a *apiServer) { a.reads = nil })
				time.Sleep(time.Minute)
				beats = api.beatsSince(time.Time{})
				if last := beats[len(beats)-1]; last.version == "100" || last.next != nil || last.active != nil || last.unreadable != nil {
					t.Errorf("heartbeat %+v after the list", last)
				}
			})
		})
	}
}

// A server that was slow to load serves only records of a list that began after its Lease contained a
// version, because the operator may no longer have waited for it.
func TestSlowServerListsAgain(t *testing.T) {
	left := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "records", Name: heartbeat.LeaseName("a")},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: new(metav1.NowMicro())},
	}
	const slow = heartbeat.MaxJoin - time.Minute
	tests := map[string]struct {
		previous      *coordinationv1.Lease
		reads, writes error
		after         time.Duration
		want          int
	}{
		"fast": {nil, errDown, nil, time.Minute, 1},
		"slow": {nil, errDown, nil, slow, 2},
		"the previous process did not load the records":    {left, errDown, nil, time.Minute, 2},
		"the API server may have written the Lease before": {nil, nil, errDown, slow, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, reg := &apiServer{reads: tc.reads, writes: tc.writes, previous: tc.previous}, registry.New()
				startWith(t, api, feed.Options{Registry: reg})
				time.Sleep(tc.after)
				before := 0
				api.set(func(a *apiServer) { a.reads, a.writes, before = nil, nil, a.lists })
				for !reg.Loaded() {
					time.Sleep(10 * time.Millisecond)
				}
				testkit.Diff(t, "lists", tc.want, api.listed()-before)
				joined := slices.ContainsFunc(api.beatsSince(time.Time{}), func(b beat) bool { return b.version != "" && b.lists == before+1 })
				if tc.want == 2 && !joined {
					t.Errorf("no heartbeat with a version between the lists: %+v", api.beatsSince(time.Time{}))
				}
			})
		})
	}
}

// A server with restored records serves the first list, even a late one: the records of the previous process
// are older, and the heartbeat must not report a version that the server doesn't serve.
func TestRestoredServerServesLateList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, api := t.TempDir(), &apiServer{}
		_, stop := start(t, api, dir)
		time.Sleep(time.Minute)
		kill(t, stop, dir)
		api.set(func(a *apiServer) { a.reads = errDown })
		reg := registry.New()
		startWith(t, api, feed.Options{Registry: reg, SnapshotDir: dir})
		time.Sleep(heartbeat.MaxJoin)
		if !reg.Loaded() {
			t.Fatal("the saved records are not restored")
		}
		before := api.listed()
		api.set(func(a *apiServer) { a.reads = nil })
		time.Sleep(time.Minute)
		testkit.Diff(t, "lists", 1, api.listed()-before)
	})
}

// The heartbeat that reports the version of an unreadable record also reports that it is unreadable.
func TestHeartbeatReportsUnreadableRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		start(t, api, "")
		time.Sleep(5 * time.Second)
		readable := clientRecord(t, "billing", "", "a")
		damaged := readable.DeepCopy()
		damaged.Data = nil
		for _, step := range []struct {
			name   string
			record *corev1.Secret
			want   []string
		}{
			{"readable", readable, nil},
			{"unreadable", damaged, []string{readable.Name}},
			{"readable again", readable, nil},
		} {
			time.Sleep(time.Minute)
			version := api.deliver(step.record.DeepCopy())
			time.Sleep(heartbeat.MaxInterval)
			synctest.Wait()
			beats := slices.DeleteFunc(api.beatsSince(time.Time{}), func(b beat) bool { return b.version != version })
			if len(beats) == 0 {
				t.Errorf("%s: no heartbeat with version %s", step.name, version)
			}
			for _, b := range beats {
				if !slices.Equal(b.unreadable, step.want) {
					t.Errorf("%s: got %v, want %v", step.name, b.unreadable, step.want)
				}
			}
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

// The heartbeat that reports a record also reports which of its keys aren't decrypted.
func TestHeartbeatReportsUndecryptedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		f, _ := start(t, api, "")
		sealed := func(state signingkey.State) signingkey.Key {
			key := newKey(t, state)
			return key.Seal(signingkey.Sealed{RealmUID: uidOf("acme"), KeyID: "1", EncryptedDataKey: []byte("x"), Ciphertext: []byte("x")})
		}
		active, pending := sealed(signingkey.Active), sealed(signingkey.Pending)
		time.Sleep(5 * time.Second) // so that no bookmark arrives in the same instant as a change
		testkit.Do(t, f.KeysReady())
		for name, step := range map[string]struct {
			keys       []signingkey.Key
			wantNext   []string
			wantActive []string
		}{
			"no next key":              {[]signingkey.Key{active}, nil, []string{"acme"}},
			"next key":                 {[]signingkey.Key{active, pending}, []string{"acme"}, []string{"acme"}},
			"next key in plaintext":    {[]signingkey.Key{active, newKey(t, signingkey.Pending)}, nil, []string{"acme"}},
			"active key in plaintext":  {[]signingkey.Key{newKey(t, signingkey.Active), pending}, []string{"acme"}, nil},
			"first key":                {[]signingkey.Key{pending}, []string{"acme"}, nil},
			"all keys are in the past": {[]signingkey.Key{newKey(t, signingkey.Active), sealed(signingkey.Retiring)}, nil, nil},
		} {
			time.Sleep(time.Minute)
			changed := time.Now()
			version := api.deliver(realmRecord(t, "acme", step.keys...))
			synctest.Wait()
			for _, b := range api.beatsSince(changed) {
				if b.version == version && (!slices.Equal(b.next, step.wantNext) || !slices.Equal(b.active, step.wantActive)) {
					t.Errorf("%s: got next %v, active %v, want %v, %v", name, b.next, b.active, step.wantNext, step.wantActive)
				}
			}
			if beats := api.beatsSince(changed); len(beats) == 0 || beats[len(beats)-1].version != version {
				t.Errorf("%s: heartbeats %v, want version %s", name, beats, version)
			}
		}
	})
}
