package tokenserver_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/limiter"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

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
		s.registry.SetClient(newClient(t, "undecoded", "slow-"+id, withSecrets(clientsecret.Credential{Verifier: argon2idHash(t, awkward)})))
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
						if a := s.sendSlow(t, client, r); a.status != 200 {
							t.Errorf("%s%s, %s, %s: got %d %s, want 200", prefix, id, form, path, a.status, a.body)
						}
					}
				}
			}
			wrong := request{path: undecodedPath, query: grant, authorization: basic(id, sent+"+%41")}
			if a := s.send(t, client, wrong); a.status != 401 {
				t.Errorf("%s, %s, wrong: got %d %s, want 401", id, form, a.status, a.body)
			}
		}
	}
	// In a body, a secret is always encoded.
	encoded := url.Values{"grant_type": {"client_credentials"}, "client_id": {"plus"}, "client_secret": {awkwardSecrets["plus"]}}.Encode()
	if a := s.send(t, client, request{path: undecodedPath, body: encoded}); a.status != 200 {
		t.Errorf("encoded in the body: got %d %s, want 200", a.status, a.body)
	}
	if a := s.send(t, client, request{path: undecodedPath, body: strings.ReplaceAll(encoded, "%2B", "+")}); a.status != 401 {
		t.Errorf("not encoded in the body: got %d %s, want 401", a.status, a.body)
	}
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
		if want := limiter.FailureBurst + 1; wrong != want {
			t.Errorf("%d events about a wrong secret, want %d", wrong, want)
		}
	})
}
