package clusterkeys_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clusterkeys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var errAway = errors.New("the API server is away")

// apiServer publishes keys, and counts how often it is asked for them.
type apiServer struct {
	t     *testing.T
	asked atomic.Int64

	mu     sync.Mutex
	now    time.Time
	issuer string
	keys   []any
	away   bool
	held   chan struct{} // an answer waits until it is closed
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
	if s.away {
		return nil, errAway
	}
	switch path {
	case "/.well-known/openid-configuration":
		return json.Marshal(map[string]string{"issuer": s.issuer, "jwks_uri": "https://elsewhere.example.com/keys"})
	case "/openid/v1/jwks":
		s.asked.Add(1)
		return json.Marshal(map[string]any{"keys": s.keys})
	}
	s.t.Errorf("asked for %s", path)
	return nil, errAway
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
	key, err := signingkey.Generate(signingkey.ES256, start, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key.Public()
}

// want checks what becomes of a look-up.
func want(t *testing.T, k *clusterkeys.Keys, key signingkey.PublicKey, wantErr error) {
	t.Helper()
	issuer, got, err := k.Key(t.Context(), key.ID())
	if !errors.Is(err, wantErr) {
		t.Fatalf("%v, want %v", err, wantErr)
	}
	if err == nil && (!got.Equal(key) || issuer != "https://kubernetes.default.svc") {
		t.Errorf("got key %s of %s", got.ID(), issuer)
	}
}

// The keys are got when one is unknown, at most once a second; a known one asks nobody.
func TestUnknownKey(t *testing.T) {
	k, s := newKeys(t)
	old, next := newKey(t), newKey(t)
	s.set(func(s *apiServer) { s.away = true })
	want(t, k, old, clientassertion.ErrNoKeys)
	s.set(func(s *apiServer) { s.away, s.keys = false, []any{old} })
	want(t, k, old, clientassertion.ErrNoKeys) // too soon
	s.pass(time.Second)
	want(t, k, old, nil)
	want(t, k, next, clientassertion.ErrKey)
	s.set(func(s *apiServer) { s.keys = []any{old, next} })
	for range 100 {
		want(t, k, next, clientassertion.ErrKey)
	}
	want(t, k, old, nil)
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times within a second, want once", n)
	}
	s.pass(time.Second)
	want(t, k, next, nil)
	want(t, k, old, nil)
	if n := s.asked.Load(); n != 2 {
		t.Errorf("asked %d times in all, want twice", n)
	}

	s.set(func(s *apiServer) { s.keys = []any{next} })
	s.pass(time.Second)
	want(t, k, newKey(t), clientassertion.ErrKey)
	want(t, k, old, clientassertion.ErrKey) // withdrawn
}

// Who asks at a time waits for one answer.
func TestSingleFlight(t *testing.T) {
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
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	want(t, k, key, nil)
}

// Who gives up doesn't end it for the others.
func TestWhoGivesUpWaitsNoLonger(t *testing.T) {
	k, s := newKeys(t)
	key := newKey(t)
	held := make(chan struct{})
	s.set(func(s *apiServer) { s.keys, s.held = []any{key}, held })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := k.Key(ctx, key.ID()); !errors.Is(err, clientassertion.ErrNoKeys) {
		t.Errorf("%v", err)
	}
	s.set(func(s *apiServer) { s.held = nil })
	close(held)
	want(t, k, key, nil)
}

// The last good keys stay while the API server is away, or publishes what can't be used.
func TestLastGoodKeysStay(t *testing.T) {
	k, s := newKeys(t)
	key, other := newKey(t), newKey(t)
	s.set(func(s *apiServer) { s.keys = []any{key} })
	want(t, k, key, nil)
	for name, change := range map[string]func(*apiServer){
		"away":           func(s *apiServer) { s.away = true },
		"without issuer": func(s *apiServer) { s.issuer = "" },
		"without keys":   func(s *apiServer) { s.keys = nil },
		"with keys that can't be used": func(s *apiServer) {
			s.keys = []any{map[string]string{"kty": "oct", "kid": "a"}, "canary", map[string]string{}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.set(func(s *apiServer) { s.away, s.issuer, s.keys = false, "https://kubernetes.default.svc", []any{other} })
			s.set(change)
			s.pass(time.Second)
			want(t, k, other, clientassertion.ErrKey)
			want(t, k, key, nil)
		})
	}
	// A key that isn't supported keeps nobody from the others.
	s.set(func(s *apiServer) {
		s.away, s.issuer, s.keys = false, "https://kubernetes.default.svc", []any{map[string]string{"kty": "oct"}, other}
	})
	s.pass(time.Second)
	want(t, k, other, nil)
}

// Run gets the keys without being asked, and ends.
func TestRun(t *testing.T) {
	k, s := newKeys(t)
	key := newKey(t)
	s.set(func(s *apiServer) { s.keys = []any{key} })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	for s.asked.Load() == 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	running.Wait()
	want(t, k, key, nil)
}
