package tokenserver_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/limiter"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	tooManyFailures = `{"error":"temporarily_unavailable","error_description":"Authentication of this client has failed too many times from this address. Try again later."}` + "\n"
	tooManyTokens   = `{"error":"temporarily_unavailable","error_description":"The token rate limit for this client was exceeded. Reuse each token until it expires."}` + "\n"
)

// behindProxy lets tests come from any source, by X-Forwarded-For.
func behindProxy(o *tokenserver.Options) {
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

func from(source string, r request) request {
	r.header = http.Header{"X-Forwarded-For": {source}}
	return r
}

func wrong(id string) request {
	return request{query: grant, authorization: basic(id, canary)}
}

// exhaust fails until the next failure is one too many.
func (s *server) exhaust(t testing.TB, client *http.Client, r request) {
	t.Helper()
	for n := range limiter.FailureBurst {
		if a := s.send(t, client, r); a.status != 401 {
			t.Fatalf("failure %d: %d %s", n+1, a.status, a.body)
		}
	}
}

func checkTooMany(t *testing.T, a answer, wantRetry, wantBody string) {
	t.Helper()
	if a.status != 429 || a.header.Get("Retry-After") != wantRetry || a.header.Get("WWW-Authenticate") != "" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d with %v", a.status, a.header)
	}
	if diff := cmp.Diff(wantBody, a.body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Who guesses is slowed, and nobody else is: not the owner at the same address, nor another
// client there, nor whoever fails elsewhere.
func TestGuesserIsSlowed(t *testing.T) {
	t.Parallel() // it waits for answers that are held back
	s := startLoaded(t, behindProxy)
	client := s.clientOf(t, "HTTP/2")
	for name, id := range map[string]string{"a client": "billing", "a suspended one": "suspended", "nobody": "nobody"} {
		t.Run(name, func(t *testing.T) {
			guess := from("192.0.2.1", wrong(id))
			s.exhaust(t, client, guess)
			checkTooMany(t, s.send(t, client, guess), "3", tooManyFailures)
			if a := s.send(t, client, from("192.0.2.2", wrong(id))); a.status != 401 {
				t.Errorf("another source: %d %s", a.status, a.body)
			}
			if a := s.send(t, client, from("192.0.2.1", wrong("brief-"+id))); a.status != 401 {
				t.Errorf("another client: %d %s", a.status, a.body)
			}
			if a := s.send(t, client, from("192.0.2.1", request{path: "/frozen/oauth2/token", query: grant, authorization: basic(id, canary)})); a.status != 401 {
				t.Errorf("another realm: %d %s", a.status, a.body)
			}
			if a := s.send(t, client, from("192.0.2.1", request{query: grant, authorization: good})); a.status != 200 {
				t.Errorf("the right secret of billing: %d %s", a.status, a.body)
			}
		})
	}
}

// The right secret of who gets no token is refused, and slowed, as any other.
func TestRightSecretOfSuspendedIsSlowed(t *testing.T) {
	t.Parallel() // it waits for answers that are held back
	s := startLoaded(t)
	client := s.clientOf(t, "HTTP/2")
	right := request{query: grant, authorization: basic("suspended", secret)}
	s.exhaust(t, client, right)
	checkTooMany(t, s.send(t, client, right), "3", tooManyFailures)
}

func TestGuesserGoesOn(t *testing.T) {
	t.Parallel() // it waits for answers that are held back
	var later atomic.Int64
	s := startLoaded(t, func(o *tokenserver.Options) {
		o.Now = func() time.Time { return now.Add(time.Duration(later.Load())) }
	})
	client := s.clientOf(t, "HTTP/2")
	s.exhaust(t, client, wrong("plain"))
	later.Store(int64(limiter.FailureInterval))
	if a := s.send(t, client, wrong("plain")); a.status != 401 {
		t.Errorf("after the time that it was asked to wait: %d %s", a.status, a.body)
	}
	checkTooMany(t, s.send(t, client, wrong("plain")), "3", tooManyFailures)
}

// What a slow secret costs isn't spent on who guesses, nor kept from an owner that the server knows.
func TestGuesserOfSlowSecrets(t *testing.T) {
	t.Parallel() // it waits for answers that are held back
	s := startHuman(t, behindProxy)
	client := s.clientOf(t, "HTTP/2")
	s.registry.SetClient(newClient(t, "human", "guessed", withSecrets(
		clientsecret.Credential{Verifier: slowly(t, password)}, clientsecret.Credential{Verifier: slowly(t, newer)})))
	ask := func(source, secret string) answer {
		return s.send(t, client, from(source, request{path: humanPath, query: grant, authorization: basic("guessed", secret)}))
	}
	for range 2 * limiter.FailureBurst { // what succeeds is no failure, the first time and from memory
		if a := ask("192.0.2.1", password); a.status != 200 {
			t.Fatalf("the owner: %d %s", a.status, a.body)
		}
	}
	for range limiter.FailureBurst {
		if a := ask("192.0.2.1", "wrong"); a.status != 401 {
			t.Fatalf("a guess: %d %s", a.status, a.body)
		}
	}
	verified := s.slowChecks(t, "verified")
	checkTooMany(t, ask("192.0.2.1", "wrong"), "3", tooManyFailures)
	checkTooMany(t, ask("192.0.2.1", newer), "3", tooManyFailures) // right, but who knows
	if got := s.slowChecks(t, "verified"); got != verified {
		t.Errorf("%v guesses beyond the limit were verified", got-verified)
	}
	if a := ask("192.0.2.1", password); a.status != 200 {
		t.Errorf("the owner at the guesser's address: %d %s", a.status, a.body)
	}
	if a := ask("192.0.2.2", newer); a.status != 200 {
		t.Errorf("the owner elsewhere: %d %s", a.status, a.body)
	}
	if a := ask("192.0.2.1", newer); a.status != 200 {
		t.Errorf("the owner at the guesser's address, once known: %d %s", a.status, a.body)
	}
}

func (s *server) slowChecks(t *testing.T, outcome string) float64 {
	t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "realmkeeper_slow_secret_checks_total" && m.GetLabel()[0].GetValue() == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// While wrong secrets come from one source as fast as they are answered, for one client and
// for names that nobody has, every client gets its token.
func TestFloodOfWrongSecrets(t *testing.T) {
	t.Parallel() // it waits for answers that are held back
	s := startLoaded(t, behindProxy)
	stop, failed := make(chan struct{}), new(atomic.Int64)
	var flood sync.WaitGroup
	for n := range 8 {
		attacker := s.clientOf(t, "HTTP/1.1")
		flood.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := "billing"
				if n%2 == 0 {
					id = fmt.Sprintf("junk-%d-%d", n, i)
				}
				if a := s.send(t, attacker, from("192.0.2.1", wrong(id))); a.status != 401 && a.status != 429 {
					t.Errorf("the flood: %d %s", a.status, a.body)
				}
				failed.Add(1)
			}
		})
	}
	client := s.clientOf(t, "HTTP/2")
	for i := 0; i < 500 || failed.Load() < 1000; i++ {
		source := []string{"192.0.2.1", "192.0.2.2"}[i%2]
		id := []string{"billing", "plain", "brief"}[i%3]
		if a := s.send(t, client, from(source, request{query: grant, authorization: basic(id, secret)})); a.status != 200 {
			t.Errorf("%s from %s: %d %s", id, source, a.status, a.body)
		}
	}
	close(stop)
	flood.Wait()
}

func TestTokensPerSecond(t *testing.T) {
	tests := map[string]struct {
		realm, client int32
		want          int // of 30 requests at once
	}{
		"no limit":               {0, 0, 30},
		"the realm's":            {3, 0, 3},
		"the client's":           {0, 4, 4},
		"the client's is lower":  {10, 5, 5},
		"the client's is higher": {5, 10, 5},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var later atomic.Int64
			s := startLoaded(t, func(o *tokenserver.Options) {
				o.Now = func() time.Time { return now.Add(time.Duration(later.Load())) }
			})
			client := s.clientOf(t, "HTTP/2")
			s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) { r.TokensPerSecond = tc.realm }))
			limited := newClient(t, "acme", "billing", func(c *registry.Client) { c.TokensPerSecond = tc.client })
			s.registry.SetClient(limited)
			granted := func(id string) (n int) {
				for range 30 {
					a := s.send(t, client, request{query: grant, authorization: basic(id, secret)})
					if a.status == 200 {
						n++
						continue
					}
					checkTooMany(t, a, "1", tooManyTokens)
				}
				return n
			}
			if got := granted("billing"); got != tc.want {
				t.Errorf("%d tokens at once, want %d", got, tc.want)
			}
			changed := *limited
			s.registry.SetClient(&changed) // a change of the client gives it no more
			if got := granted("billing"); tc.want < 30 && got != 0 {
				t.Errorf("then %d tokens, want none", got)
			}
			if got := granted("plain"); tc.realm == 0 && got != 30 || tc.realm > 0 && got != int(tc.realm) {
				t.Errorf("another client gets %d", got)
			}
			later.Store(int64(time.Second))
			if got := granted("billing"); got != tc.want {
				t.Errorf("%d tokens a second later, want %d", got, tc.want)
			}
		})
	}
}

func TestSource(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	tests := map[string]struct {
		remote    string
		trusted   []netip.Prefix
		forwarded []string
		want      string
	}{
		"no proxy":                               {"192.0.2.1:1234", trusted, nil, "192.0.2.1"},
		"nobody is trusted":                      {"10.0.0.1:1234", nil, []string{"192.0.2.1"}, "10.0.0.1"},
		"who isn't trusted says much":            {"192.0.2.9:1234", trusted, []string{"192.0.2.1"}, "192.0.2.9"},
		"a proxy":                                {"10.0.0.1:1234", trusted, []string{"192.0.2.1"}, "192.0.2.1"},
		"a proxy that says nothing":              {"10.0.0.1:1234", trusted, nil, "10.0.0.1"},
		"what the client has written first":      {"10.0.0.1:1234", trusted, []string{"198.51.100.7, 192.0.2.1"}, "192.0.2.1"},
		"in lines of its own":                    {"10.0.0.1:1234", trusted, []string{"198.51.100.7", "192.0.2.1"}, "192.0.2.1"},
		"two proxies":                            {"10.0.0.1:1234", trusted, []string{"198.51.100.7, 192.0.2.1,10.0.0.2"}, "192.0.2.1"},
		"all are proxies":                        {"10.0.0.1:1234", trusted, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"nonsense at the end":                    {"10.0.0.1:1234", trusted, []string{"192.0.2.1, nonsense"}, "10.0.0.1"},
		"nonsense before a proxy":                {"10.0.0.1:1234", trusted, []string{"unknown, 10.0.0.2"}, "10.0.0.2"},
		"empty":                                  {"10.0.0.1:1234", trusted, []string{""}, "10.0.0.1"},
		"with a port":                            {"10.0.0.1:1234", trusted, []string{"192.0.2.1:4711"}, "192.0.2.1"},
		"IPv6":                                   {"[fd00::1]:1234", trusted, []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv6 in brackets":                       {"[fd00::1]:1234", trusted, []string{"[2001:db8::1]"}, "2001:db8::1"},
		"IPv6 with a port":                       {"[fd00::1]:1234", trusted, []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		"IPv4 as IPv6, as sockets for both have": {"[::ffff:10.0.0.1]:1234", trusted, []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		"very many":                              {"10.0.0.1:1234", trusted, []string{strings.Repeat("10.0.0.2,", 1000) + "192.0.2.1"}, "192.0.2.1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tc.remote, Header: http.Header{"X-Forwarded-For": tc.forwarded}}
			if got := tokenserver.SourceOf(r, tc.trusted).String(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
