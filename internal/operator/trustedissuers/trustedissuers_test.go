package trustedissuers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// network is the issuers that a Fetcher under test reaches.
type network struct {
	*Fetcher

	registry *prometheus.Registry

	mu      sync.Mutex
	sets    map[string][]signingkey.PublicKey // by issuer URL; without one, the fetch fails
	errs    map[string]FetchError             // by issuer URL; of fetches that fail, instead of ErrConnection
	hangs   map[string]bool                   // fetches from these wait until they are canceled
	fetches map[string][]time.Time
	changes []string // the names of the Realms that were reconciled
}

// lead returns a Fetcher that is the leader until the test ends.
func lead(t *testing.T) *network {
	t.Helper()
	n := follow(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return n
}

// follow returns a Fetcher that isn't the leader.
func follow(t *testing.T) *network {
	t.Helper()
	n := &network{registry: prometheus.NewRegistry(), sets: map[string][]signingkey.PublicKey{}, errs: map[string]FetchError{}, hangs: map[string]bool{}, fetches: map[string][]time.Time{}}
	n.Fetcher = New(&config.Instance{}, metrics.New(n.registry), time.Now, func() float64 { return 0.5 })
	n.newSource = func(i Issuer) (keySource, error) { return fakeSource{n, i.URL}, nil }
	testkit.Do(t, n.Changed.Start(t.Context(), reconciled{n: n}))
	return n
}

type fakeSource struct {
	*network

	url string
}

func (s fakeSource) keys(ctx context.Context) ([]signingkey.PublicKey, error) {
	s.mu.Lock()
	s.fetches[s.url] = append(s.fetches[s.url], time.Now())
	set, hangs, err := s.sets[s.url], s.hangs[s.url], s.errs[s.url]
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ErrTimeout
	}
	switch {
	case set != nil:
		return set, nil
	case err != "":
		return nil, err
	}
	return nil, ErrConnection
}

// reconciled is the queue of the Realm controller.
type reconciled struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	n *network
}

func (q reconciled) Add(r reconcile.Request) {
	q.n.mu.Lock()
	defer q.n.mu.Unlock()
	q.n.changes = append(q.n.changes, r.Name)
}

// publish replaces the keys of an issuer.
func (n *network) publish(t *testing.T, url string, ids ...string) {
	t.Helper()
	keys := testkit.Value(parseKeys(keySet(t, ids...)))(t)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sets[url] = keys
}

// since returns when fetches from an issuer started, relative to a time.
func (n *network) since(url string, start time.Time) (after []time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, at := range n.fetches[url] {
		if !at.Before(start) {
			after = append(after, at.Sub(start))
		}
	}
	return after
}

func ids(keys []signingkey.PublicKey) string {
	var all []string
	for _, k := range keys {
		all = append(all, k.ID())
	}
	return strings.Join(all, " ")
}

func at(name string, url string) Issuer { return Issuer{Name: name, URL: url, Source: name + url} }

// expect compares the times of fetches from an issuer.
func (n *network) expect(t *testing.T, url string, start time.Time, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	testkit.Diff(t, "fetches from "+url, want, n.since(url, start))
}

// Keys are fetched immediately, and then at least every 10 minutes. Only a change reconciles the Realm.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, start := lead(t), time.Now()
		n.publish(t, "u", "a")
		n.Want("acme", []Issuer{at("edge", "u")})
		time.Sleep(20 * time.Minute)
		n.publish(t, "u", "b")
		time.Sleep(9 * time.Minute)
		n.expect(t, "u", start, 0, 570*time.Second, 1140*time.Second, 1710*time.Second)
		if got := n.State("acme", "edge", "edgeu"); ids(got.Keys) != "b" || got.Err != "" || !got.FailingSince.IsZero() {
			t.Errorf("state %+v, want the key b", got)
		}
		testkit.Diff(t, "reconciled Realms", []string{"acme", "acme"}, n.changes)
	})
}

// An issuer revokes its previous keys by publishing a set without supported keys, or with a private
// key. No other failure revokes them.
func TestRevocation(t *testing.T) {
	for _, err := range []FetchError{ErrNoKeys, ErrPrivateKey, ErrKeySet, ErrTooLarge, ErrMetadata, ErrIssuer, badStatus(404), ErrCertificate} {
		synctest.Test(t, func(t *testing.T) {
			n := lead(t)
			n.publish(t, "u", "a")
			n.Want("acme", []Issuer{at("edge", "u")})
			time.Sleep(time.Second)
			n.mu.Lock()
			delete(n.sets, "u")
			n.errs["u"] = err
			n.mu.Unlock()
			time.Sleep(10 * time.Minute)
			got := n.State("acme", "edge", "edgeu")
			if revoked := err == ErrNoKeys || err == ErrPrivateKey; got.Keys == nil || (len(got.Keys) == 0) != revoked || got.Err != err {
				t.Errorf("%s: state %+v, want keys %t", err, got, !revoked)
			}
			n.publish(t, "u", "b")
			time.Sleep(10 * time.Minute)
			if got := n.State("acme", "edge", "edgeu"); ids(got.Keys) != "b" || got.Err != "" {
				t.Errorf("%s: state %+v after the recovery", err, got)
			}
		})
	}
}

// Requests cause at most one fetch per minute, regardless of their number.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := lead(t)
		n.publish(t, "u", "a")
		n.publish(t, "v", "a")
		n.Want("acme", []Issuer{at("edge", "u"), at("other", "v")})
		time.Sleep(5 * time.Minute)
		start := time.Now()
		n.Request("acme", "edge")
		n.Request("acme", "unknown")
		n.Request("unknown", "edge")
		n.expect(t, "u", start, 0)
		for range 1000 {
			n.Request("acme", "edge")
			time.Sleep(180 * time.Millisecond)
		}
		n.expect(t, "u", start, 0, time.Minute, 2*time.Minute, 3*time.Minute)
		n.expect(t, "v", start)
	})
}

// An operator that has become the leader fetches keys that it has from the record within a minute,
// and those that it lacks immediately. Others fetch none.
func TestNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorded := at("recorded", "u")
		recorded.HaveKeys = true
		standby := follow(t)
		standby.Want("acme", []Issuer{recorded, at("new", "v")})
		standby.Request("acme", "new")
		n, start := lead(t), time.Now()
		n.Want("acme", []Issuer{recorded, at("new", "v")})
		time.Sleep(29 * time.Second)
		n.expect(t, "u", start)
		n.expect(t, "v", start, 0)
		time.Sleep(2 * time.Second)
		n.expect(t, "u", start, 30*time.Second)
		standby.expect(t, "u", start)
		standby.expect(t, "v", start)
	})
}

// Want replaces the issuers of one Realm. Unchanged issuers keep their schedule. Fetches for issuers
// that are no longer wanted stop immediately.
func TestWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := lead(t)
		for _, url := range []string{"u", "v", "w"} {
			n.publish(t, url, url)
		}
		n.hangs["slow"] = true
		n.Want("acme", []Issuer{at("kept", "u"), at("changed", "v"), at("dropped", "slow")})
		n.Want("shop", []Issuer{at("kept", "u")})
		time.Sleep(time.Second)
		start := time.Now()
		n.Want("acme", []Issuer{at("kept", "u"), at("changed", "w")})
		time.Sleep(time.Second)
		n.expect(t, "u", start)
		n.expect(t, "w", start, 0)
		if old := n.State("acme", "changed", "changedv"); old.Keys != nil {
			t.Errorf("the old source has the keys %s", ids(old.Keys))
		}
		if got := n.State("acme", "changed", "changedw"); ids(got.Keys) != "w" {
			t.Errorf("keys %s, want w", ids(got.Keys))
		}
		n.Forget("acme")
		time.Sleep(time.Hour)
		n.expect(t, "w", start, 0)
		if got := n.State("acme", "kept", "keptu"); got.Keys != nil || len(n.since("u", start)) < 5 {
			t.Errorf("keys %s of a deleted Realm; the other one got %d fetches", ids(got.Keys), len(n.since("u", start)))
		}
		testkit.Diff(t, "series of the remaining Realm", []string{"fetches_total", "fetches_total", "last_success_timestamp_seconds"}, n.series(t, "shop"))
	})
}

// series returns the names of the metrics of issuers, all of which must be of Realm want.
func (n *network) series(t *testing.T, want string) (names []string) {
	t.Helper()
	families := testkit.Value(n.registry.Gather())(t)
	for _, f := range families {
		name, ofIssuer := strings.CutPrefix(f.GetName(), "realmkeeper_issuer_")
		for _, m := range f.GetMetric() {
			if !ofIssuer {
				continue
			}
			names = append(names, name)
			for _, label := range m.GetLabel() {
				if label.GetName() == "realm" && label.GetValue() != want {
					t.Errorf("%s of Realm %s", f.GetName(), label.GetValue())
				}
			}
		}
	}
	return names
}

// Each request in a Lease counts once, even if later heartbeats change other parts of the Lease.
func TestLeaseRequests(t *testing.T) {
	f := New(&config.Instance{}, metrics.New(prometheus.NewRegistry()), time.Now, func() float64 { return 0 })
	issuers := []Issuer{{Name: "x"}, {Name: "y"}}
	f.Want("acme", issuers)
	set := func(server, requests string) func() {
		return func() {
			f.SetLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: server, Annotations: map[string]string{heartbeat.RefreshAnnotation: requests}}})
		}
	}
	remove := func(server string) func() { return func() { f.RemoveLease(server) } }
	for _, step := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"first", set("a", "acme/x=1"), []string{"x"}},
		{"same", set("a", "acme/x=1"), nil},
		{"one more", set("a", "acme/x=1,acme/y=1"), []string{"y"}},
		{"again", set("a", "acme/x=2,acme/y=1"), []string{"x"}},
		{"earlier time", set("a", "acme/x=0,acme/y=1"), []string{"x"}},
		{"another server", set("b", "acme/x=1"), []string{"x"}},
		{"invalid", set("a", "???"), nil},
		{"unknown issuer", set("a", "acme/z=1,other/x=1"), nil},
		{"none", set("a", ""), nil},
		{"deleted", remove("b"), nil},
		{"same name", set("b", "acme/x=1"), []string{"x"}},
		{"deleted again", remove("b"), nil},
	} {
		step.change()
		var got []string
		for _, issuer := range issuers {
			select {
			case <-f.realms["acme"][issuer.Name].wake:
				got = append(got, issuer.Name)
			default:
			}
		}
		testkit.Diff(t, step.name, step.want, got)
	}
	if len(f.requested) > 0 {
		t.Errorf("remembered %v", f.requested)
	}
}

// A fetch knows which one was recorded when it began, and is later than that. If another operator records a
// fetch in the meantime, the keys are fetched again soon.
func TestFetchFollowsRecordedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const url = "https://edge.example.com"
		n, start := lead(t), time.Now()
		n.publish(t, url, "a")
		edge := at("edge", url)
		edge.FetchedAt = start.Add(time.Hour) // by an operator whose clock was ahead
		want := func(recorded time.Time) State {
			t.Helper()
			edge.FetchedAt = recorded
			n.Want("acme", []Issuer{edge})
			time.Sleep(2 * minInterval)
			synctest.Wait()
			return n.State("acme", "edge", edge.Source)
		}

		first := want(edge.FetchedAt)
		if !first.After.Equal(start.Add(time.Hour)) || !first.FetchedAt.After(first.After) {
			t.Errorf("the fetch of %s is after that of %s", first.FetchedAt, first.After)
		}
		if own := want(first.FetchedAt); !own.FetchedAt.Equal(first.FetchedAt) {
			t.Errorf("the keys were fetched again when they were recorded")
		}
		other := first.FetchedAt.Add(time.Second)
		second := want(other)
		if !second.After.Equal(other) || !second.FetchedAt.After(other) {
			t.Errorf("the fetch of %s is after that of %s, want one after %s", second.FetchedAt, second.After, other)
		}
		n.mu.Lock()
		delete(n.sets, url)
		n.errs[url] = ErrNoKeys
		n.mu.Unlock()
		n.Request("acme", "edge")
		revoked := want(second.FetchedAt)
		if len(revoked.Keys) > 0 || !revoked.FetchedAt.After(second.FetchedAt) || !revoked.After.Equal(second.FetchedAt) {
			t.Errorf("the revocation is %+v", revoked)
		}
	})
}

// After a failure, the last keys are kept and the fetch is retried at growing intervals. Other
// issuers are not affected, even if a fetch never ends.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, start := lead(t), time.Now()
		for _, url := range []string{"good", "failing", "hanging"} {
			n.publish(t, url, "a")
		}
		n.Want("acme", []Issuer{at("good", "good"), at("failing", "failing"), at("hanging", "hanging")})
		time.Sleep(time.Second)
		n.mu.Lock()
		delete(n.sets, "failing")
		n.hangs["hanging"] = true
		n.mu.Unlock()
		time.Sleep(20 * time.Minute)
		const first = 570 * time.Second
		n.expect(t, "failing", start, 0, first, first+30*time.Second, first+90*time.Second, first+210*time.Second, first+450*time.Second)
		n.expect(t, "hanging", start, 0, first)
		n.expect(t, "good", start, 0, first, 2*first)
		got := n.State("acme", "failing", "failingfailing")
		if ids(got.Keys) != "a" || got.Err != ErrConnection || !got.FailingSince.Equal(start.Add(first)) {
			t.Errorf("state %+v, want the key a and a failure since %s", got, start.Add(first))
		}
		n.publish(t, "failing", "b")
		time.Sleep(10 * time.Minute)
		if got := n.State("acme", "failing", "failingfailing"); ids(got.Keys) != "b" || got.Err != "" || !got.FailingSince.IsZero() {
			t.Errorf("state %+v after the recovery", got)
		}
	})
}

// An error other than the fixed ones is reported as a connection error, without its text.
func TestOtherErrorsAreNotRepeated(t *testing.T) {
	if got := fetchErrorOf(errors.New(canary), false); got != ErrConnection {
		t.Errorf("error %q, want %q", got, ErrConnection)
	}
}
