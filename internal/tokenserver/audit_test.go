package tokenserver_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// audited returns an option that enables the audit log, and a function that closes the log and
// returns its lines.
func audited(t testing.TB) (option func(*tokenserver.Options), lines func() []string) {
	t.Helper()
	out := &logBuffer{}
	log := audit.Open(out, slog.New(slog.DiscardHandler), func() time.Time { return now })
	var closed atomic.Bool
	closeLog := func() {
		if !closed.Swap(true) {
			testkit.Do(t, log.Close(t.Context()))
		}
	}
	t.Cleanup(closeLog)
	return func(o *tokenserver.Options) { o.Audit = log }, func() []string {
		closeLog()
		all := []string{}
		for line := range strings.Lines(out.String()) {
			all = append(all, line)
		}
		return all
	}
}

// Each credential decision produces one audit event with all known details.
func TestCredentialDecisionsAreAudited(t *testing.T) {
	const source = "192.0.2.7"
	want := func(members map[string]any) map[string]any {
		line := map[string]any{"time": "2026-03-01T12:00:00.5Z", "action": "token", "outcome": "refused", "realm": "acme", "source": source}
		for name, value := range members {
			if line[name] = value; value == nil {
				delete(line, name)
			}
		}
		return line
	}
	of := func(id string, more map[string]any) map[string]any {
		line := want(map[string]any{"clientId": id, "clientUid": "acme." + id})
		maps.Copy(line, more)
		return line
	}
	right := func(id string, more map[string]any) map[string]any {
		line := of(id, more)
		line["secretId"] = "the-id"
		return line
	}
	query := func(id, secret string) request { return request{query: grant, authorization: basic(id, secret)} }
	tests := map[string]struct {
		request request
		before  int // number of identical requests sent before
		want    map[string]any
	}{
		"a token":                  {query("billing", secret), 0, right("billing", map[string]any{"outcome": "granted", "jti": "of the token"})},
		"a wrong secret":           {query("billing", canary), 0, of("billing", map[string]any{"reason": "wrong_secret"})},
		"an expired secret":        {query("rotating", expiredSecret), 0, of("rotating", map[string]any{"reason": "wrong_secret"})},
		"the credentials twice":    {request{query: grant, body: "client_id=billing&client_secret=" + secret, authorization: good}, 0, right("billing", map[string]any{"outcome": "granted", "jti": "of the token"})},
		"two secrets":              {request{query: grant, body: "client_secret=" + canary, authorization: good}, 0, of("billing", map[string]any{"reason": "invalid_request"})},
		"an unknown client":        {query("unknown", canary), 0, want(map[string]any{"reason": "unknown_client"})},
		"a suspended client":       {query("suspended", secret), 0, right("suspended", map[string]any{"reason": "client_disabled"})},
		"a suspended realm":        {request{path: "/frozen/oauth2/token", query: grant, authorization: basic("billing", secret)}, 0, map[string]any{"time": "2026-03-01T12:00:00.5Z", "action": "token", "outcome": "refused", "reason": "realm_disabled", "realm": "frozen", "clientId": "billing", "clientUid": "frozen.billing", "secretId": "the-id", "source": source}},
		"no credentials":           {request{query: grant}, 0, want(map[string]any{"reason": "no_credentials"})},
		"unknown grant type":       {request{query: "grant_type=password", authorization: good}, 0, right("billing", map[string]any{"reason": "unsupported_grant_type"})},
		"too many failures":        {query("billing", canary), ratelimit.FailureBurst, of("billing", map[string]any{"reason": "too_many_failures"})},
		"too many tokens":          {query("limited", secret), 1, right("limited", map[string]any{"reason": "too_many_tokens"})},
		"a secret in the query":    {request{query: grant + "&client_secret=" + canary, authorization: good}, 0, want(map[string]any{"reason": "credentials_exposed"})},
		"a secret and GET":         {request{method: "GET", query: "client_secret=" + canary}, 0, want(map[string]any{"realm": nil, "reason": "credentials_exposed"})},
		"introspection":            {request{path: "/acme/oauth2/introspect", body: "token=" + canary, authorization: good}, 0, right("billing", map[string]any{"action": "introspection", "outcome": "granted"})},
		"verification":             {request{method: "GET", path: "/acme/oauth2/verify", authorization: "Bearer " + canary}, 0, nil},
		"a body that is too large": {request{body: strings.Repeat("x", 9<<10), authorization: good}, 0, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				withAudit, lines := audited(t)
				s := startLoaded(t, behindProxy, withAudit)
				for _, id := range []string{"billing", "plain", "suspended", "expired", "limited"} {
					s.setSecretID(t, "acme", id, "the-id")
				}
				s.setSecretID(t, "frozen", "billing", "the-id")
				client := s.direct()
				r := tc.request
				r.header = http.Header{"X-Forwarded-For": {source}}
				for range tc.before {
					s.send(t, client, r)
				}
				got := s.send(t, client, r)
				written := lines()
				if tc.want == nil {
					if len(written) > 0 {
						t.Errorf("got lines %q, want none", written)
					}
					return
				}
				if len(written) != tc.before+1 {
					t.Fatalf("got %d lines, want %d: %q", len(written), tc.before+1, written)
				}
				last := written[tc.before]
				if strings.Contains(last, canary) || strings.Contains(last, secret) {
					t.Errorf("line %q contains a secret", last)
				}
				var line map[string]any
				testkit.Do(t, json.Unmarshal([]byte(last), &line))
				if tc.want["jti"] != nil {
					tc.want["jti"] = payload(t, accessToken(t, got))["jti"]
				}
				testkit.Diff(t, "result", tc.want, line)
			})
		})
	}
}

// The response doesn't reveal that a client may not introspect a token. The audit log and the metrics
// do.
func TestRefusedIntrospectionIsAudited(t *testing.T) {
	withAudit, lines := audited(t)
	s := startLoaded(t, withAudit)
	token := issued(t, s, "plain", "")
	got := s.send(t, s.direct(), request{path: introspectPath, body: "token=" + token, authorization: good})
	if got.status != http.StatusOK || got.body != inactive {
		t.Fatalf("got %d %s, want 200 %s", got.status, got.body, inactive)
	}
	written := lines()
	var event audit.Event
	testkit.Do(t, json.Unmarshal([]byte(written[len(written)-1]), &event))
	want := audit.Event{
		Time: now, Action: audit.ActionIntrospection, Outcome: audit.Refused, Reason: audit.ReasonAudienceNotAllowed,
		Realm: "acme", ClientID: "billing", ClientUID: "acme.billing", TokenID: payload(t, token)["jti"].(string), //nolint:forcetypeassert // it is a string
	}
	event.Source = want.Source // the loopback address
	testkit.Diff(t, "result", want, event, cmpopts.EquateComparable(netip.Addr{}))
	const counted = `
# HELP realmkeeper_introspections_total Introspection requests by result: "active", "inactive", "not_allowed" if the client may not introspect the token, or the OAuth 2.0 error code.
# TYPE realmkeeper_introspections_total counter
realmkeeper_introspections_total{result="not_allowed"} 1
`
	testkit.Do(t, testutil.GatherAndCompare(s.metrics, strings.NewReader(counted), "realmkeeper_introspections_total"))
}

// setSecretID sets the ID of a client's secret. The client "limited" gets one token per second.
func (s *server) setSecretID(t testing.TB, realm, id, secretID string) {
	t.Helper()
	s.registry.SetClient(newClient(t, realm, id, func(c *registry.Client) {
		switch id {
		case "suspended":
			c.Disabled = true
		case "expired":
			c.ExpiresAt = now
		case "limited":
			c.TokensPerSecond = 1
		}
		c.Secrets[0].ID = secretID
	}))
}

// If a client has both HMAC-hashed and Argon2id-hashed secrets, the audit event contains the ID of
// the matching secret.
func TestAuditHasTheIDOfTheMatchingSecret(t *testing.T) {
	withAudit, lines := audited(t)
	s := startArgon2id(t, withAudit)
	client := s.direct()
	several := credentials(t, secret, time.Time{})
	several = append(several, credentials(t, expiringSecret, time.Time{})...)
	for _, value := range []string{password, newPassword} {
		c := credentials(t, "", time.Time{})[0]
		c.Verifier = argon2idHash(t, value)
		several = append(several, c)
	}
	ids := []string{"hmac-1", "hmac-2", "argon2id-1", "argon2id-2"}
	for i, id := range ids {
		several[i].ID = id
	}
	s.registry.SetClient(newClient(t, "argon2id", "many", withSecrets(several...)))
	want := []string{}
	for range 2 { // on the second attempt, the Argon2id result is remembered
		for i, value := range []string{secret, expiringSecret, password, newPassword} {
			expectStatus(t, "response", 200, s.send(t, client, request{path: argon2idPath, query: grant, authorization: basic("many", value)}))
			want = append(want, ids[i])
		}
	}
	got := []string{}
	for _, line := range lines() {
		var e audit.Event
		testkit.Do(t, json.Unmarshal([]byte(line), &e))
		got = append(got, e.SecretID)
	}
	testkit.Diff(t, "result", want, got)
}
