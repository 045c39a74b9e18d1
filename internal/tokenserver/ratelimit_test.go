package tokenserver_test

import (
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	tooManyFailures = `{"error":"temporarily_unavailable","error_description":"Requests of this client from this address have failed too many times. Try again later."}` + "\n"
	tooManyTokens   = `{"error":"temporarily_unavailable","error_description":"The token rate limit for this client was exceeded. Reuse each token until it expires."}` + "\n"
)

// behindProxy lets tests set a request's source with X-Forwarded-For.
func behindProxy(o *tokenserver.Options) {
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

func from(source string, r request) request {
	r.header = http.Header{"X-Forwarded-For": {source}}
	return r
}

var lastSource atomic.Int64

// elsewhere returns the request with a source of its own, so that failures don't add up. The server
// must be behindProxy.
func elsewhere(r request) request {
	n := lastSource.Add(1)
	return from(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String(), r)
}

func wrongSecret(id string) request {
	return request{query: grant, authorization: basic(id, canary)}
}

// exhaust repeats a failing request until it has used up the failure limit.
func (s *server) exhaust(t testing.TB, client *http.Client, r request) {
	t.Helper()
	for range ratelimit.FailureBurst {
		expectStatus(t, "failure", 401, s.send(t, client, r))
	}
}

func checkTooMany(t *testing.T, a response, wantRetry, wantBody string) {
	t.Helper()
	if a.status != 429 || a.header.Get("Retry-After") != wantRetry || a.header.Get("WWW-Authenticate") != "" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d with headers %v, want 429 with Retry-After %s", a.status, a.header, wantRetry)
	}
	testkit.Diff(t, "body", wantBody, a.body)
}

// The failure limit applies only to the attacked client and the attacker's address. The correct
// secret, other clients and other addresses are not limited.
func TestFailureLimitAffectsOnlyTheAttacker(t *testing.T) {
	for name, id := range map[string]string{"existing client": "billing", "suspended client": "suspended", "unknown client": "unknown"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := startLoaded(t, behindProxy)
				client := s.direct()
				guess := from("192.0.2.1", wrongSecret(id))
				s.exhaust(t, client, guess)
				checkTooMany(t, s.send(t, client, guess), "3", tooManyFailures)
				expectStatus(t, "another source", 401, s.send(t, client, from("192.0.2.2", wrongSecret(id))))
				expectStatus(t, "another client", 401, s.send(t, client, from("192.0.2.1", wrongSecret("brief-"+id))))
				other := request{path: "/frozen/oauth2/token", query: grant, authorization: basic(id, canary)}
				expectStatus(t, "another realm", 401, s.send(t, client, from("192.0.2.1", other)))
				expectStatus(t, "correct secret of billing", 200, s.send(t, client, from("192.0.2.1", request{query: grant, authorization: good})))
			})
		})
	}
}

// Delayed responses leave most of the requests in progress to other clients.
func TestFewRequestsWaitAfterFailures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startLoaded(t, func(o *tokenserver.Options) { o.InFlight = 32 })
		client := s.direct()
		s.exhaust(t, client, wrongSecret("billing"))
		began, delayed := time.Now(), atomic.Int64{}
		var guesses sync.WaitGroup
		for range 20 {
			guesses.Go(func() {
				checkTooMany(t, s.send(t, client, wrongSecret("billing")), "3", tooManyFailures)
				if time.Since(began) > 0 {
					delayed.Add(1)
				}
			})
		}
		guesses.Wait()
		testkit.Diff(t, "requests that waited", int64(32/4), delayed.Load())
	})
}

// The failure limit must not reveal that a suspended client's secret is correct.
func TestFailureLimitAppliesToSuspendedClientWithCorrectSecret(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startLoaded(t)
		client := s.direct()
		correct := request{query: grant, authorization: basic("suspended", secret)}
		s.exhaust(t, client, correct)
		checkTooMany(t, s.send(t, client, correct), "3", tooManyFailures)
	})
}

// Beyond the failure limit, wrong secrets get a 429, but a correct Argon2id-hashed secret is accepted
// even if it was not verified before.
func TestFailureLimitAcceptsCorrectArgon2idSecrets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startArgon2id(t, behindProxy)
		client := s.direct()
		s.registry.SetClient(newClient(t, "argon2id", "guessed", withSecrets(
			clientsecret.Stored{Verifier: argon2idHash(t, password)}, clientsecret.Stored{Verifier: argon2idHash(t, newPassword)})))
		guess := func(secret string) request {
			return from("192.0.2.1", request{path: argon2idPath, query: grant, authorization: basic("guessed", secret)})
		}
		for range 2 * ratelimit.FailureBurst { // successes don't count as failures, whether remembered or not
			expectStatus(t, "correct secret", 200, s.sendSlow(t, client, guess(password)))
		}
		expectStatus(t, "wrong secret", 401, s.sendSlow(t, client, guess("wrong")))
		for range ratelimit.FailureBurst - 1 {
			expectStatus(t, "wrong secret", 401, s.send(t, client, guess("wrong")))
		}
		checkTooMany(t, s.send(t, client, guess("wrong")), "3", tooManyFailures)
		checkTooMany(t, s.sendSlow(t, client, guess("another wrong one")), "3", tooManyFailures)
		for range 2 {
			expectStatus(t, "other correct secret from the address of the attacker", 200, s.sendSlow(t, client, guess(newPassword)))
		}
		expectStatus(t, "remembered secret from the address of the attacker", 200, s.send(t, client, guess(password)))
	})
}

func TestTokenRateIsTheLowerLimit(t *testing.T) {
	tests := map[string]struct {
		realm, client int32
		want          int // tokens granted for a burst of 30 requests
	}{
		"no limit":               {0, 0, 30},
		"limit of the client":    {0, 4, 4},
		"client limit is lower":  {10, 5, 5},
		"client limit is higher": {5, 10, 5},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var later atomic.Int64
			s := startLoaded(t, func(o *tokenserver.Options) {
				o.Now = func() time.Time { return now.Add(time.Duration(later.Load())) }
			})
			client := s.direct()
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
			testkit.Diff(t, "tokens at once", tc.want, granted("billing"))
			changed := *limited
			s.registry.SetClient(&changed) // updating the client must not reset its rate limit
			if got := granted("billing"); tc.want < 30 && got != 0 {
				t.Errorf("got %d tokens after a client update, want none", got)
			}
			if got := granted("plain"); tc.realm == 0 && got != 30 || tc.realm > 0 && got != int(tc.realm) {
				t.Errorf("another client got %d tokens", got)
			}
			later.Store(int64(time.Second))
			testkit.Diff(t, "tokens one second later", tc.want, granted("billing"))
		})
	}
}
