package tokenserver_test

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	argon2idPath = "/argon2id/oauth2/token"
	password     = "correct horse battery staple"
	newPassword  = "Tr0ub4dor&3 and some more"
)

// argon2idHash returns a verifier with an Argon2id hash of the secret.
func argon2idHash(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	return testkit.Value(clientsecret.HashArgon2id(secret, rand.Reader))(t)
}

// sharedHashes returns a hash of each password. Tests share them because hashing is slow.
var sharedHashes = sync.OnceValue(func() map[string]clientsecret.Verifier {
	hashes := map[string]clientsecret.Verifier{}
	for _, secret := range []string{password, newPassword} {
		verifier, err := clientsecret.HashArgon2id(secret, rand.Reader)
		if err != nil {
			panic(err)
		}
		hashes[secret] = verifier
	}
	return hashes
})

// pbkdf2Hash returns a verifier with the cheapest PBKDF2 hash of the secret that is accepted.
func pbkdf2Hash(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	const iterations, salt = 10_000, "a salt of a test"
	tag := testkit.Value(pbkdf2.Key(sha256.New, secret, []byte(salt), iterations, sha256.Size))(t)
	hash := fmt.Sprintf("$pbkdf2-sha256$i=%d,l=%d$%s$%s", iterations, len(tag),
		base64.RawStdEncoding.EncodeToString([]byte(salt)), base64.RawStdEncoding.EncodeToString(tag))
	return testkit.Value(clientsecret.ParseVerifier(hash))(t)
}

func withSecrets(secrets ...clientsecret.Stored) func(*registry.Client) {
	return func(c *registry.Client) { c.Secrets = secrets }
}

// startArgon2id runs a token server with the realm "argon2id". Some of its clients have HMAC-hashed
// secrets, others have Argon2id-hashed secrets.
func startArgon2id(t testing.TB, options ...func(*tokenserver.Options)) *server {
	t.Helper()
	s := startLoaded(t, options...)
	s.registry.SetRealm(newRealm(t, "argon2id", nil))
	hashed := func(secret string, expiration time.Time) clientsecret.Stored {
		return clientsecret.Stored{Verifier: sharedHashes()[secret], ExpiresAt: expiration}
	}
	for id, change := range map[string]func(*registry.Client){
		"hmac":      nil,
		"argon2id":  withSecrets(hashed(password, time.Time{})),
		"rotating":  withSecrets(hashed(password, now.Add(time.Second)), hashed(newPassword, time.Time{})),
		"rotated":   withSecrets(hashed(password, now), hashed(newPassword, time.Time{})),
		"both":      withSecrets(append(credentials(t, secret, time.Time{}), hashed(password, time.Time{}))...),
		"expired":   withSecrets(hashed(password, now)),
		"suspended": func(c *registry.Client) { withSecrets(hashed(password, time.Time{}))(c); c.Disabled = true },
	} {
		s.registry.SetClient(newClient(t, "argon2id", id, change))
	}
	return s
}

func TestArgon2idSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		id, secret string
		want       int
	}{
		"correct":                        {"argon2id", password, 200},
		"wrong":                          {"argon2id", password + "r", 401},
		"old secret before expiration":   {"rotating", password, 200},
		"old secret at expiration":       {"rotated", password, 401},
		"both kinds, HMAC":               {"both", secret, 200},
		"both kinds, Argon2id":           {"both", password, 200},
		"suspended client":               {"suspended", password, 401},
		"unknown client":                 {"unknown", password, 401},
		"unknown client, longest secret": {"unknown", strings.Repeat("x", 4000), 401},
		"longest secret":                 {"argon2id", strings.Repeat("x", 4000), 401},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := startArgon2id(t)
				client := s.direct()
				for range 2 { // on the second attempt, the result is remembered
					a := s.sendSlow(t, client, request{path: argon2idPath, query: grant, authorization: basic(test.id, test.secret)})
					expectStatus(t, "response", test.want, a)
					if test.want == 401 && a.body != `{"error":"invalid_client","error_description":"Client authentication failed."}`+"\n" {
						t.Errorf("got body %s", a.body)
					}
				}
			})
		})
	}
}

// Every secret can be sent form-encoded or raw. A value that can be only one of the two costs one
// verification, and any other at most two, without a pause.
func TestSecretsWithSpecialCharacters(t *testing.T) {
	for secret, most := range map[string]struct{ encoded, raw float64 }{
		"letters-and.digits_0123456789~":   {1, 1},
		"ends-with-a-percent-sign-0123%":   {2, 1},
		"escape-that-decodes-%41-012345":   {2, 2},
		"escape-that-does-not-%zz-01234":   {2, 1},
		"truncated-escape-0123456789-%4":   {2, 1},
		"escaped-control-character-%00-":   {2, 1},
		"escape-beyond-UTF-8-012345-%ff":   {2, 1},
		"twice-escaped-%2541-0123456789":   {2, 2},
		"plus+sign+0123456789+012345678":   {2, 2},
		"Zx9+/=%41:pw with space-012345":   {2, 1},
		"slashes/and/equal/signs/01234=":   {2, 1},
		"colons:0123456789:0123456789:0":   {2, 1},
		"spaces and more spaces 0123456":   {2, 1},
		"ampersand&0123456789&012345678":   {2, 1},
		"quotation\"marks\"0123456789\"01": {2, 1},
		"backslash\\0123456789\\012345678": {2, 1},
		"brackets[{(<0123456789>)}]0123":   {2, 1},
		"stars*and!others'()0123456789~":   {2, 1},
		"Pässwörter-mit-Umläuten-012345":   {2, 1},
		"日本語のパスワード-0123456789-01234567":    {2, 1},
	} {
		t.Run(secret, func(t *testing.T) {
			verifier := pbkdf2Hash(t, secret)
			for name, tc := range map[string]struct {
				request request
				want    int
				most    float64
			}{
				"raw":           {request{query: grant, authorization: basic("special", secret)}, 200, most.raw},
				"encoded":       {request{query: grant, authorization: basic("special", url.QueryEscape(secret))}, 200, most.encoded},
				"in the body":   {request{body: grant + "&client_id=special&client_secret=" + url.QueryEscape(secret)}, 200, 1},
				"wrong":         {request{query: grant, authorization: basic("special", secret+"x")}, 401, most.raw},
				"wrong encoded": {request{query: grant, authorization: basic("special", url.QueryEscape(secret+"x"))}, 401, most.encoded},
			} {
				t.Run(name, func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						s := startArgon2id(t)
						s.registry.SetClient(newClient(t, "argon2id", "special", withSecrets(clientsecret.Stored{Verifier: verifier})))
						tc.request.path = argon2idPath
						for range 2 { // then it is remembered
							expectStatus(t, "response", tc.want, s.send(t, s.direct(), tc.request))
						}
						if got := s.slowChecks(t, "verified"); got > tc.most {
							t.Errorf("%v verifications, want at most %v", got, tc.most)
						}
					})
				})
			}
		})
	}
}

// Each secret is verified once, whether it is correct or wrong. Suspension, expiration and rotation
// apply immediately, even if the secret is remembered.
func TestArgon2idRunsOncePerSecret(t *testing.T) {
	at := now
	s := startArgon2id(t, func(o *tokenserver.Options) { o.Now = func() time.Time { return at } })
	client := s.direct()
	original := newClient(t, "argon2id", "argon2id", withSecrets(clientsecret.Stored{Verifier: argon2idHash(t, password)}))
	s.registry.SetClient(original)
	send := func(secret string, want int) {
		t.Helper()
		expectStatus(t, "response", want, s.sendSlow(t, client, request{path: argon2idPath, query: grant, authorization: basic("argon2id", secret)}))
	}
	change := func(change func(*registry.Client)) {
		c := *original
		change(&c)
		s.registry.SetClient(&c)
	}
	expect := func(remembered, rejected, verified float64) {
		t.Helper()
		got := []float64{s.slowChecks(t, "remembered"), s.slowChecks(t, "rejected"), s.slowChecks(t, "verified")}
		testkit.Diff(t, "remembered, rejected and verified secrets", []float64{remembered, rejected, verified}, got)
	}

	send(password, 200)
	send(password, 200)
	send(password, 200)
	expect(2, 0, 1)
	send("wrong", 401)
	send("wrong", 401)
	expect(2, 1, 2)
	change(func(c *registry.Client) { c.Disabled = true })
	send(password, 401)
	change(func(c *registry.Client) { c.ExpiresAt = now })
	send(password, 401)
	expect(4, 1, 2)
	change(withSecrets(clientsecret.Stored{Verifier: original.Secrets[0].Verifier, ExpiresAt: now.Add(time.Second)}))
	send(password, 200)
	expect(5, 1, 2)
	at = now.Add(time.Second)
	send(password, 401)
	expect(5, 1, 2)

	// A remembered secret must not be accepted for a different client that has the same hash.
	at = now
	other := newClient(t, "argon2id", "other", withSecrets(original.Secrets...))
	s.registry.SetClient(other)
	expectStatus(t, "response", 200, s.sendSlow(t, client, request{path: argon2idPath, query: grant, authorization: basic("other", password)}))
	expect(5, 1, 3)
}

// Argon2id is expensive, so it runs only for clients with an unexpired Argon2id-hashed secret.
func TestArgon2idRunsOnlyForClientsThatUseIt(t *testing.T) {
	s := startArgon2id(t)
	client := s.direct()
	for id, want := range map[string]float64{"unknown": 0, "hmac": 0, "expired": 0, "argon2id": 1} {
		before := s.slowChecks(t, "verified")
		expectStatus(t, id, 401, s.sendSlow(t, client, request{path: argon2idPath, query: grant, authorization: basic(id, "wrong")}))
		testkit.Diff(t, id, want, s.slowChecks(t, "verified")-before)
	}
}

// sendSlow sends a request again after a 503, as clients do.
func (s *server) sendSlow(t testing.TB, client *http.Client, r request) response {
	t.Helper()
	for {
		a := s.send(t, client, r)
		if a.status != http.StatusServiceUnavailable {
			return a
		}
		checkBusy(t, a)
	}
}

func checkBusy(t testing.TB, a response) {
	t.Helper()
	want := `{"error":"temporarily_unavailable","error_description":"The server is busy verifying other secrets. Try again later."}` + "\n"
	if a.body != want || a.header.Get("Retry-After") != "1" {
		t.Errorf("got %d %s with Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
	}
}

// slowChecks returns the number of checks of slowly hashed secrets with the given outcome.
func (s *server) slowChecks(t *testing.T, outcome string) float64 {
	t.Helper()
	families := testkit.Value(s.metrics.Gather())(t)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "realmkeeper_slow_secret_checks_total" && m.GetLabel()[0].GetValue() == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// Requests that can't wait for a slow hash get a 503, and the owner of the secret gets a token nevertheless.
func TestBusyVerifyingSecrets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startArgon2id(t, behindProxy)
		var (
			guesses sync.WaitGroup
			busy    atomic.Int64
		)
		for n := range 12 {
			guesses.Go(func() {
				a := s.send(t, s.direct(), elsewhere(request{path: argon2idPath, query: grant, authorization: basic("argon2id", fmt.Sprint("guess ", n))}))
				if a.status == http.StatusServiceUnavailable {
					busy.Add(1)
					checkBusy(t, a)
				}
			})
		}
		guesses.Wait()
		if busy.Load() == 0 {
			t.Error("all requests waited")
		}
		expectStatus(t, "owner", 200, s.sendSlow(t, s.direct(), request{path: argon2idPath, query: grant, authorization: basic("argon2id", password)}))
	})
}

const undecodedPath = "/undecoded/oauth2/token"

// awkwardSecrets are secrets that clients send differently if they don't form-urlencode them.
var awkwardSecrets = map[string]string{
	"plus":          "a+long+secret+of+an+old+client",
	"looks-encoded": "%41 secret%2Bwith%20escapes",
	"all":           "a+secret:of 100%25 and %zz",
}

// Each client has its secret twice: with an HMAC, and with a slow hash under the prefix "slow-".
func startUndecoded(t *testing.T) *server {
	t.Helper()
	s := startLoaded(t)
	s.registry.SetRealm(newRealm(t, "undecoded", nil))
	for id, awkward := range awkwardSecrets {
		s.registry.SetClient(newClient(t, "undecoded", id, func(c *registry.Client) { c.Secrets = credentials(t, awkward, time.Time{}) }))
		s.registry.SetClient(newClient(t, "undecoded", "slow-"+id, withSecrets(clientsecret.Stored{Verifier: argon2idHash(t, awkward)})))
	}
	return s
}

// A client gets tokens if it encodes its secret as RFC 6749 requires, and also if it doesn't. All
// endpoints accept the same credentials.
func TestSecretsThatAreNotEncoded(t *testing.T) {
	s := startUndecoded(t)
	client := s.direct()
	for id, awkward := range awkwardSecrets {
		for form, sent := range map[string]string{"encoded": url.QueryEscape(awkward), "as it is": awkward} {
			for _, prefix := range []string{"", "slow-"} {
				for _, path := range []string{undecodedPath, "/undecoded/oauth2/introspect"} {
					r := request{path: path, query: grant, authorization: basic(prefix+id, sent)}
					if path != undecodedPath {
						r.query, r.body = "", "token=x"
					}
					for range 2 { // on the second attempt, the result is remembered
						expectStatus(t, prefix+id+", "+form+", "+path, 200, s.sendSlow(t, client, r))
					}
				}
			}
			wrong := request{path: undecodedPath, query: grant, authorization: basic(id, sent+"+%41")}
			expectStatus(t, id+", "+form+", wrong", 401, s.send(t, client, wrong))
		}
	}
	// In a body, a secret is always encoded.
	encoded := url.Values{"grant_type": {"client_credentials"}, "client_id": {"plus"}, "client_secret": {awkwardSecrets["plus"]}}.Encode()
	expectStatus(t, "encoded in the body", 200, s.send(t, client, request{path: undecodedPath, body: encoded}))
	expectStatus(t, "not encoded in the body", 401, s.send(t, client, request{path: undecodedPath, body: strings.ReplaceAll(encoded, "%2B", "+")}))
}

// A request with two possible secrets is one failure and one audit event, and the response is the
// same for unknown clients.
func TestTwoPossibleSecretsAreOneFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		option, lines := audited(t)
		s := startLoaded(t, option, behindProxy)
		client := s.direct()
		var responses []response
		for _, id := range []string{"billing", "unknown"} {
			guess := from("192.0.2.1", request{query: grant, authorization: basic(id, "one+or%20two")})
			s.exhaust(t, client, guess)
			a := s.send(t, client, guess)
			checkTooMany(t, a, "3", tooManyFailures)
			responses = append(responses, s.send(t, client, from("192.0.2.2", guess)))
		}
		same := func(r response) []any { return []any{r.status, r.body, r.header["Www-Authenticate"]} }
		if diff := cmp.Diff(same(responses[0]), same(responses[1])); diff != "" || responses[0].status != http.StatusUnauthorized {
			t.Errorf("response to an unknown client, %d (-existing +unknown):\n%s", responses[0].status, diff)
		}
		wrong := 0
		for _, line := range lines() {
			var event struct{ ClientID, Reason string }
			testkit.Do(t, json.Unmarshal([]byte(line), &event))
			if event.ClientID == "billing" && event.Reason == "wrong_secret" {
				wrong++
			}
		}
		testkit.Diff(t, "events about a wrong secret", ratelimit.FailureBurst+1, wrong)
	})
}
