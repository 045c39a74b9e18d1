package tokenserver_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	humanPath = "/human/oauth2/token"
	password  = "correct horse battery staple"
	newer     = "Tr0ub4dor&3 and some more"
)

// slowly returns a verifier that is slow.
func slowly(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	verifier, err := clientsecret.HashSlowly(secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return verifier
}

func withSecrets(secrets ...clientsecret.Credential) func(*registry.Client) {
	return func(c *registry.Client) { c.Secrets = secrets }
}

// startHuman runs a token server with a realm in which secrets of people and of machines meet.
func startHuman(t testing.TB, options ...func(*tokenserver.Options)) *server {
	t.Helper()
	s := startLoaded(t, options...)
	s.registry.SetRealm(newRealm(t, "human", nil))
	of := func(secret string, until time.Time) clientsecret.Credential {
		return clientsecret.Credential{Verifier: slowly(t, secret), ExpiresAt: until}
	}
	for id, change := range map[string]func(*registry.Client){
		"machine":   nil,
		"person":    withSecrets(of(password, time.Time{})),
		"changing":  withSecrets(of(password, now.Add(time.Second)), of(newer, time.Time{})),
		"changed":   withSecrets(of(password, now), of(newer, time.Time{})),
		"both":      withSecrets(append(credentials(t, secret, time.Time{}), of(password, time.Time{}))...),
		"over":      withSecrets(of(password, now)),
		"suspended": func(c *registry.Client) { withSecrets(of(password, time.Time{}))(c); c.Disabled = true },
	} {
		s.registry.SetClient(newClient(t, "human", id, change))
	}
	return s
}

func TestSlowSecrets(t *testing.T) {
	s := startHuman(t)
	client := s.clientOf(t, "HTTP/2")
	for name, test := range map[string]struct {
		id, secret string
		want       int
	}{
		"a person's":                    {"person", password, 200},
		"a person's, wrong":             {"person", password + "r", 401},
		"the old one before its end":    {"changing", password, 200},
		"the new one beside it":         {"changing", newer, 200},
		"the old one at its end":        {"changed", password, 401},
		"the new one after that":        {"changed", newer, 200},
		"the only one at its end":       {"over", password, 401},
		"of two kinds, the fast one":    {"both", secret, 200},
		"of two kinds, the slow one":    {"both", password, 200},
		"of two kinds, neither":         {"both", newer, 401},
		"suspended":                     {"suspended", password, 401},
		"a machine's":                   {"machine", secret, 200},
		"a machine's, wrong":            {"machine", password, 401},
		"of nobody":                     {"nobody", password, 401},
		"another's":                     {"person", newer, 401},
		"nobody's, as long as can be":   {"nobody", strings.Repeat("x", 4000), 401},
		"a person's, as long as can be": {"person", strings.Repeat("x", 4000), 401},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time from memory, if it was right
				a := s.send(t, client, request{path: humanPath, query: grant, authorization: basic(test.id, test.secret)})
				if a.status != test.want {
					t.Errorf("%d %s, want %d", a.status, a.body, test.want)
				}
				if test.want == 401 && a.body != `{"error":"invalid_client","error_description":"Client authentication failed."}`+"\n" {
					t.Errorf("refused with %s", a.body)
				}
			}
		})
	}
}

// A good result is remembered, and only that; what ends it ends it at once.
func TestSlowSecretsAreVerifiedOnce(t *testing.T) {
	at := now
	s := startHuman(t, func(o *tokenserver.Options) { o.Now = func() time.Time { return at } })
	client := s.clientOf(t, "HTTP/2")
	person := newClient(t, "human", "person", withSecrets(clientsecret.Credential{Verifier: slowly(t, password)}))
	s.registry.SetClient(person)
	ask := func(secret string, want int) {
		t.Helper()
		if a := s.send(t, client, request{path: humanPath, query: grant, authorization: basic("person", secret)}); a.status != want {
			t.Errorf("%d %s, want %d", a.status, a.body, want)
		}
	}
	changed := func(change func(*registry.Client)) {
		c := *person
		change(&c)
		s.registry.SetClient(&c)
	}
	expect := func(remembered, verified int) {
		t.Helper()
		want := fmt.Sprintf(`
# HELP realmkeeper_slow_secret_checks_total Checks of Argon2id-hashed secrets by outcome: "remembered" if the secret was verified before, "verified" if Argon2id ran, or "busy" if the response was 503.
# TYPE realmkeeper_slow_secret_checks_total counter
realmkeeper_slow_secret_checks_total{outcome="remembered"} %d
realmkeeper_slow_secret_checks_total{outcome="verified"} %d
`, remembered, verified)
		if err := testutil.GatherAndCompare(s.metrics, strings.NewReader(want), "realmkeeper_slow_secret_checks_total"); err != nil {
			t.Error(err)
		}
	}

	ask(password, 200)
	ask(password, 200)
	ask(password, 200)
	expect(2, 1)
	ask("wrong", 401)
	ask("wrong", 401)
	expect(2, 3)
	changed(func(c *registry.Client) { c.Disabled = true })
	ask(password, 401)
	changed(func(c *registry.Client) { c.ExpiresAt = now })
	ask(password, 401)
	expect(4, 3)
	changed(withSecrets(clientsecret.Credential{Verifier: slowly(t, password)})) // another hash of the same
	ask(password, 200)
	expect(4, 4)
	changed(withSecrets(clientsecret.Credential{Verifier: slowly(t, newer)}))
	ask(password, 401)
	expect(4, 5)
	changed(withSecrets(clientsecret.Credential{Verifier: person.Secrets[0].Verifier, ExpiresAt: now.Add(time.Second)}))
	ask(password, 200)
	expect(5, 5)
	at = now.Add(time.Second)
	ask(password, 401)
	expect(5, 5)

	// The same secret and hash are another's in another client.
	at = now
	other := newClient(t, "human", "other", withSecrets(person.Secrets...))
	s.registry.SetClient(other)
	if a := s.send(t, client, request{path: humanPath, query: grant, authorization: basic("other", password)}); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	expect(5, 6)
}

// Argon2id is expensive, so only a client with a current Argon2id-hashed secret causes it.
func TestArgon2idRunsOnlyForClientsThatUseIt(t *testing.T) {
	s := startHuman(t)
	client := s.clientOf(t, "HTTP/2")
	for id, want := range map[string]float64{"unknown": 0, "machine": 0, "over": 0, "person": 1} {
		before := s.slowChecks(t, "verified")
		if a := s.send(t, client, request{path: humanPath, query: grant, authorization: basic(id, "wrong")}); a.status != 401 {
			t.Errorf("%s: got %d %s, want 401", id, a.status, a.body)
		}
		if got := s.slowChecks(t, "verified") - before; got != want {
			t.Errorf("%s: Argon2id ran %v times, want %v", id, got, want)
		}
	}
}

// While wrong slow secrets come in floods, those beyond the queue are asked to come again;
// no fast secret is refused, and no slow one that is known to be good.
func TestFloodOfSlowSecrets(t *testing.T) {
	s := startHuman(t)
	client := s.clientOf(t, "HTTP/2")
	ask := func(id, secret string) answer {
		return s.send(t, client, request{path: humanPath, query: grant, authorization: basic(id, secret)})
	}
	if a := ask("person", password); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}

	var (
		flood sync.WaitGroup
		busy  atomic.Int64
	)
	for range 30 {
		flood.Go(func() {
			a := ask("changing", "wrong")
			switch {
			case a.status == http.StatusServiceUnavailable:
				busy.Add(1)
				want := `{"error":"temporarily_unavailable","error_description":"The server is busy verifying other secrets. Try again later."}` + "\n"
				if diff := cmp.Diff(want, a.body); diff != "" || a.header.Get("Retry-After") == "" {
					t.Errorf("busy, with Retry-After %q (-want +got):\n%s", a.header.Get("Retry-After"), diff)
				}
			case a.status != http.StatusUnauthorized:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	for range 20 {
		for id, right := range map[string]string{"machine": secret, "person": password} {
			if a := ask(id, right); a.status != 200 {
				t.Errorf("%s in the flood: %d %s", id, a.status, a.body)
			}
		}
	}
	flood.Wait()
	if busy.Load() == 0 {
		t.Error("none of the flood is turned away")
	}
	if a := ask("changing", newer); a.status != 200 {
		t.Errorf("after the flood: %d %s", a.status, a.body)
	}
}

// BenchmarkFlood tells how long a client with a generated secret waits for its token while
// wrong slow secrets come as fast as they are let in, and how many times longer that is than
// without them. What is turned away costs what every other request costs.
func BenchmarkFlood(b *testing.B) {
	s := startHuman(b, behindProxy)
	client := s.clientOf(b, "HTTP/1.1")
	ask := func() time.Duration {
		begin := time.Now()
		if a := s.send(b, client, request{path: humanPath, query: grant, authorization: basic("machine", secret)}); a.status != 200 {
			b.Errorf("%d %s", a.status, a.body)
		}
		return time.Since(begin)
	}
	var quiet, flooded time.Duration
	for b.Loop() {
		quiet += ask()
	}
	var (
		stop  = make(chan struct{})
		flood sync.WaitGroup
	)
	for n := range 4 {
		attacker := s.clientOf(b, "HTTP/1.1")
		flood.Go(func() {
			for i := 0; ; i++ {
				source := fmt.Sprintf("10.%d.%d.%d", n, i>>8&255, i&255) // one alone would soon be slowed
				select {
				case <-stop:
					return
				default:
					s.send(b, attacker, from(source, request{path: humanPath, query: grant, authorization: basic("person", "wrong")}))
				}
			}
		})
	}
	for range b.N {
		flooded += ask()
	}
	close(stop)
	flood.Wait()
	b.ReportMetric(float64(flooded.Microseconds())/float64(b.N), "flooded-µs/op")
	b.ReportMetric(float64(flooded)/float64(quiet), "flooded/quiet")
}
