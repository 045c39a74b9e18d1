package clusterkeys_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clusterkeys"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var errUnavailable = errors.New("the API server is unavailable")

// apiServer publishes keys and counts requests for them.
type apiServer struct {
	t        *testing.T
	requests atomic.Int64

	mu          sync.Mutex
	now         time.Time
	issuer      string
	keys        []any
	unavailable bool
	held        chan struct{} // responses wait until this is closed; if nil, they don't wait
}

func (s *apiServer) get(ctx context.Context, path string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		held := s.held
		s.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	if s.unavailable {
		return nil, errUnavailable
	}
	switch path {
	case "/.well-known/openid-configuration":
		return json.Marshal(map[string]string{"issuer": s.issuer, "jwks_uri": "https://elsewhere.example.com/keys"})
	case "/openid/v1/jwks":
		s.requests.Add(1)
		return json.Marshal(map[string]any{"keys": s.keys})
	}
	s.t.Errorf("unexpected request for %s", path)
	return nil, errUnavailable
}

func (s *apiServer) set(change func(*apiServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *apiServer) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *apiServer) pass(d time.Duration) { s.set(func(s *apiServer) { s.now = s.now.Add(d) }) }

func newKeys(t *testing.T) (*clusterkeys.Keys, *apiServer) {
	t.Helper()
	s := &apiServer{t: t, now: start, issuer: "https://kubernetes.default.svc"}
	return clusterkeys.New(clusterkeys.Options{
		Get: s.get, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: s.clock,
	}), s
}

func newKey(t *testing.T) signingkey.PublicKey {
	t.Helper()
	key := testkit.Value(signingkey.Generate(signingkey.ES256, start, rand.Reader))(t)
	return key.Public()
}

// want checks the result of a lookup.
func want(t *testing.T, k *clusterkeys.Keys, key signingkey.PublicKey, wantErr error) {
	t.Helper()
	issuers, got, err := k.Key(t.Context(), key.ID())
	if !errors.Is(err, wantErr) {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if err == nil && (!got.Equal(key) || !slices.Equal(issuers, []string{"https://kubernetes.default.svc"})) {
		t.Errorf("got key %s of issuers %s, want key %s", got.ID(), issuers, key.ID())
	}
}

// An unknown key triggers a refresh, but at most once per second, and not within ten seconds of a
// failed one. A known key triggers no request.
func TestUnknownKey(t *testing.T) {
	k, s := newKeys(t)
	old, next := newKey(t), newKey(t)
	s.set(func(s *apiServer) { s.unavailable = true })
	want(t, k, old, clientassertion.ErrNoKeys)
	s.set(func(s *apiServer) { s.unavailable, s.keys = false, []any{old} })
	s.pass(9 * time.Second)
	want(t, k, old, clientassertion.ErrNoKeys) // too soon
	s.pass(time.Second)
	want(t, k, old, nil)
	want(t, k, next, jws.ErrKey)
	s.set(func(s *apiServer) { s.keys = []any{old, next} })
	for range 100 {
		want(t, k, next, jws.ErrKey)
	}
	want(t, k, old, nil)
	testkit.Diff(t, "requests within a second", int64(1), s.requests.Load())
	s.pass(time.Second)
	want(t, k, next, nil)
	want(t, k, old, nil)
	testkit.Diff(t, "requests in total", int64(2), s.requests.Load())

	s.set(func(s *apiServer) { s.keys = []any{next} })
	s.pass(time.Second)
	want(t, k, newKey(t), jws.ErrKey)
	want(t, k, old, jws.ErrKey) // withdrawn
}

// A key ID of another issuer with the cluster's URL is looked up once, and not at all if the URL
// differs. While the API server is unavailable, it is unknown whose key it is.
func TestRuleOut(t *testing.T) {
	const issuer = "https://kubernetes.default.svc"
	k, s := newKeys(t)
	own, next, foreign := newKey(t), newKey(t), newKey(t)
	ruleOut := func(issuer string, key signingkey.PublicKey, want error, wantRequests int64) {
		t.Helper()
		testkit.Diff(t, "error", want, k.RuleOut(t.Context(), issuer, key.ID()), cmpopts.EquateErrors())
		if n := s.requests.Load(); n != wantRequests {
			t.Errorf("%d requests, want %d", n, wantRequests)
		}
		s.pass(10 * time.Second)
	}
	s.set(func(s *apiServer) { s.unavailable, s.keys = true, []any{own} })
	ruleOut("https://example.com", foreign, clientassertion.ErrNoKeys, 0)
	s.set(func(s *apiServer) { s.unavailable = false })
	ruleOut(issuer, own, nil, 1)
	ruleOut(issuer, own, nil, 1)
	ruleOut("https://example.com", foreign, nil, 1)
	s.set(func(s *apiServer) { s.unavailable = true })
	ruleOut(issuer, foreign, clientassertion.ErrNoKeys, 1)
	s.set(func(s *apiServer) { s.unavailable, s.keys = false, []any{own, next} })
	ruleOut(issuer, next, nil, 2)
	if _, key, err := k.Known(next.ID()); err != nil || !key.Equal(next) {
		t.Errorf("new key of the cluster: %v", err)
	}
	ruleOut(issuer, foreign, nil, 3)
	s.set(func(s *apiServer) { s.unavailable = true })
	ruleOut(issuer, foreign, nil, 3)
	// The regular refresh failed meanwhile. A caller that is too early must not rely on it.
	_ = k.RuleOut(t.Context(), issuer, newKey(t).ID())
	testkit.Diff(t, "too soon after a failure", clientassertion.ErrNoKeys, k.RuleOut(t.Context(), issuer, newKey(t).ID()), cmpopts.EquateErrors())
}

// Another issuer of the cluster is accepted until its time, with the cluster's own keys only. A trusted issuer with
// the same URL can't use a key of the cluster before this server knows it.
func TestAcceptedIssuers(t *testing.T) {
	const current, former = "https://kubernetes.default.svc", "https://former.example.com"
	s := &apiServer{t: t, now: start, issuer: current}
	k := clusterkeys.New(clusterkeys.Options{
		Get: s.get, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: s.clock,
		Accepted: []clusterkeys.AcceptedIssuer{{Issuer: former, Until: start.Add(time.Hour)}},
	})
	own, next := newKey(t), newKey(t)
	s.set(func(s *apiServer) { s.keys = []any{own} })
	issuers, _, err := k.Key(t.Context(), own.ID())
	testkit.Do(t, err)
	testkit.Diff(t, "issuers", []string{current, former}, issuers)
	s.pass(time.Second)
	testkit.Do(t, k.RuleOut(t.Context(), former, next.ID()))
	testkit.Diff(t, "requests for the former issuer", int64(2), s.requests.Load())
	s.pass(time.Hour - time.Second)
	issuers, _, err = k.Known(own.ID())
	testkit.Do(t, err)
	testkit.Diff(t, "issuers afterward", []string{current}, issuers)
}

func TestParseAcceptedIssuer(t *testing.T) {
	got, err := clusterkeys.ParseAcceptedIssuer("https://a.example.com/?id=1=2026-03-01T12:00:00Z")
	testkit.Do(t, err)
	testkit.Diff(t, "issuer", clusterkeys.AcceptedIssuer{Issuer: "https://a.example.com/?id=1", Until: start}, got)
	for _, wrong := range []string{"", "https://a.example.com", "=2026-03-01T12:00:00Z", "https://a.example.com=", "https://a.example.com=tomorrow"} {
		if _, err := clusterkeys.ParseAcceptedIssuer(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// Concurrent callers share one request.
func TestSharedRequest(t *testing.T) {
	k, s := newKeys(t)
	key := newKey(t)
	held := make(chan struct{})
	s.set(func(s *apiServer) { s.keys, s.held = []any{key}, held })
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			if _, _, err := k.Key(t.Context(), key.ID()); err != nil && !errors.Is(err, clientassertion.ErrNoKeys) {
				t.Error(err)
			}
		})
	}
	s.set(func(s *apiServer) { s.held = nil })
	close(held)
	running.Wait()
	testkit.Diff(t, "requests", int64(1), s.requests.Load())
	want(t, k, key, nil)
}

// While the API server doesn't respond, only a few callers wait for it. The others get an error.
func TestFewCallersWait(t *testing.T) {
	for name, call := range map[string]func(context.Context, *clusterkeys.Keys) error{
		"Key": func(ctx context.Context, k *clusterkeys.Keys) error {
			_, _, err := k.Key(ctx, "unknown")
			return err
		},
		"RuleOut": func(ctx context.Context, k *clusterkeys.Keys) error {
			return k.RuleOut(ctx, "https://kubernetes.default.svc", "unknown")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, s := newKeys(t)
				key := newKey(t)
				s.set(func(s *apiServer) { s.keys = []any{key} })
				want(t, k, key, nil)
				s.pass(time.Second)
				s.set(func(s *apiServer) { s.unavailable, s.held = true, make(chan struct{}) })
				var (
					running  sync.WaitGroup
					answered atomic.Int64
				)
				const callers = 100
				for range callers {
					running.Go(func() {
						// Whether the cluster has the key is unknown, so the callers must try again.
						testkit.Diff(t, "error", clientassertion.ErrNoKeys, call(t.Context(), k), cmpopts.EquateErrors())
						answered.Add(1)
					})
				}
				synctest.Wait()
				testkit.Diff(t, "waiting callers", int64(8), callers-answered.Load())
				want(t, k, key, nil)
				running.Wait() // until the request times out
			})
		})
	}
}

// Canceling one caller doesn't cancel the shared request.
func TestCanceledCaller(t *testing.T) {
	k, s := newKeys(t)
	key := newKey(t)
	held := make(chan struct{})
	s.set(func(s *apiServer) { s.keys, s.held = []any{key}, held })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := k.Key(ctx, key.ID()); !errors.Is(err, clientassertion.ErrNoKeys) {
		t.Errorf("error %v, want %v", err, clientassertion.ErrNoKeys)
	}
	s.set(func(s *apiServer) { s.held = nil })
	close(held)
	want(t, k, key, nil)
}

// The last known good keys remain in use while the API server is unavailable or publishes unusable
// documents.
func TestKeepsLastKnownGoodKeys(t *testing.T) {
	k, s := newKeys(t)
	key, other := newKey(t), newKey(t)
	s.set(func(s *apiServer) { s.keys = []any{key} })
	want(t, k, key, nil)
	for name, change := range map[string]func(*apiServer){
		"unavailable": func(s *apiServer) { s.unavailable = true },
		"no issuer":   func(s *apiServer) { s.issuer = "" },
		"no keys":     func(s *apiServer) { s.keys = nil },
		"unusable keys": func(s *apiServer) {
			s.keys = []any{map[string]string{"kty": "oct", "kid": "a"}, "canary", map[string]string{}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.set(func(s *apiServer) {
				s.unavailable, s.issuer, s.keys = false, "https://kubernetes.default.svc", []any{other}
			})
			s.set(change)
			s.pass(10 * time.Second)
			want(t, k, other, clientassertion.ErrNoKeys)
			want(t, k, key, nil)
		})
	}
	// An unsupported key doesn't affect the other keys.
	s.set(func(s *apiServer) {
		s.unavailable, s.issuer, s.keys = false, "https://kubernetes.default.svc", []any{map[string]string{"kty": "oct"}, other}
	})
	s.pass(10 * time.Second)
	want(t, k, other, nil)
}

// Run fetches the keys even without lookups and returns when its context is done.
func TestRun(t *testing.T) {
	k, s := newKeys(t)
	key := newKey(t)
	s.set(func(s *apiServer) { s.keys = []any{key} })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	for s.requests.Load() == 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	running.Wait()
	want(t, k, key, nil)
}
