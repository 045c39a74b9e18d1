package tokenserver_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/limiter"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// audited lets a server have an audit, and returns what ends it and gives its lines.
func audited(t testing.TB) (option func(*tokenserver.Options), lines func() []string) {
	t.Helper()
	out := &logBuffer{}
	log := audit.Open(out, slog.New(slog.DiscardHandler), func() time.Time { return now })
	var closed atomic.Bool
	end := func() {
		if !closed.Swap(true) {
			if err := log.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(end)
	return func(o *tokenserver.Options) { o.Audit = log }, func() []string {
		end()
		all := []string{}
		for line := range strings.Lines(out.String()) {
			all = append(all, line)
		}
		return all
	}
}

// Each decision has one line that says all that is known of it.
func TestAudit(t *testing.T) {
	t.Parallel() // some answers are held back
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
		before  int // of the same requests
		want    map[string]any
	}{
		"a token":                {query("billing", secret), 0, right("billing", map[string]any{"outcome": "granted", "jti": "of the token"})},
		"by client_secret_post":  {request{body: grant + "&client_id=plain&client_secret=" + secret}, 0, right("plain", map[string]any{"outcome": "granted", "jti": "of the token"})},
		"a wrong secret":         {query("billing", canary), 0, of("billing", map[string]any{"reason": "wrong_secret"})},
		"a secret that ended":    {query("rotating", ended), 0, of("rotating", map[string]any{"reason": "wrong_secret"})},
		"an unknown client":      {query("nobody", canary), 0, want(map[string]any{"reason": "unknown_client"})},
		"a very long id":         {query(strings.Repeat("ä", 1000), canary), 0, want(map[string]any{"reason": "unknown_client"})},
		"a suspended client":     {query("suspended", secret), 0, right("suspended", map[string]any{"reason": "client_disabled"})},
		"an expired client":      {query("expired", secret), 0, right("expired", map[string]any{"reason": "client_expired"})},
		"a suspended realm":      {request{path: "/frozen/oauth2/token", query: grant, authorization: basic("billing", secret)}, 0, map[string]any{"time": "2026-03-01T12:00:00.5Z", "action": "token", "outcome": "refused", "reason": "realm_disabled", "realm": "frozen", "clientId": "billing", "clientUid": "frozen.billing", "secretId": "the-id", "source": source}},
		"no credentials":         {request{query: grant}, 0, want(map[string]any{"reason": "no_credentials"})},
		"broken Basic":           {request{query: grant, authorization: "Basic " + canary + "!"}, 0, want(map[string]any{"reason": "no_credentials"})},
		"two methods":            {request{body: grant + "&client_secret=" + canary, authorization: good}, 0, want(map[string]any{"reason": "invalid_request"})},
		"another's client_id":    {request{body: grant + "&client_id=plain", authorization: good}, 0, want(map[string]any{"reason": "invalid_request"})},
		"no grant":               {request{authorization: good}, 0, right("billing", map[string]any{"reason": "invalid_request"})},
		"another grant":          {request{query: "grant_type=password", authorization: good}, 0, right("billing", map[string]any{"reason": "unsupported_grant_type"})},
		"a scope":                {request{query: grant + "&scope=" + canary, authorization: good}, 0, right("billing", map[string]any{"reason": "invalid_scope"})},
		"an audience":            {request{query: grant + "&audience=" + canary, authorization: good}, 0, right("billing", map[string]any{"reason": "invalid_target"})},
		"failures":               {query("billing", canary), limiter.FailureBurst, of("billing", map[string]any{"reason": "too_many_failures"})},
		"tokens":                 {query("limited", secret), 1, right("limited", map[string]any{"reason": "too_many_tokens"})},
		"a secret in the query":  {request{query: grant + "&client_secret=" + canary, authorization: good}, 0, want(map[string]any{"reason": "credentials_exposed"})},
		"with another method":    {request{method: "GET", query: "client_secret=" + canary}, 0, want(map[string]any{"realm": nil, "reason": "credentials_exposed"})},
		"introspection":          {request{path: "/acme/oauth2/introspect", body: "token=" + canary, authorization: good}, 0, right("billing", map[string]any{"action": "introspection", "outcome": "granted"})},
		"wrong, introspection":   {request{path: "/acme/oauth2/introspect", body: "token=" + canary, authorization: basic("billing", canary)}, 0, of("billing", map[string]any{"action": "introspection", "reason": "wrong_secret"})},
		"no token to introspect": {request{path: "/acme/oauth2/introspect", authorization: good}, 0, right("billing", map[string]any{"action": "introspection", "reason": "invalid_request"})},
		"verification":           {request{method: "GET", path: "/acme/oauth2/verify", authorization: "Bearer " + canary}, 0, nil},
		"another method":         {request{method: "GET", query: grant}, 0, nil},
		"an unknown realm":       {request{path: "/" + canary + "/oauth2/token", query: grant, authorization: good}, 0, nil},
		"a malformed request":    {request{query: "scope=%zz" + canary, authorization: good}, 0, nil},
		"what isn't a request":   {request{method: "GET", path: "/acme/oauth2/jwks"}, 0, nil},
		"a body that's too long": {request{body: strings.Repeat("x", 9<<10), authorization: good}, 0, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			withAudit, lines := audited(t)
			s := startLoaded(t, behindProxy, withAudit)
			for _, id := range []string{"billing", "plain", "suspended", "expired", "limited"} {
				s.name(t, "acme", id, "the-id")
			}
			s.name(t, "frozen", "billing", "the-id")
			client := s.clientOf(t, "HTTP/2")
			r := tc.request
			r.header = http.Header{"X-Forwarded-For": {source}}
			for range tc.before {
				s.send(t, client, r)
			}
			answer := s.send(t, client, r)
			got := lines()
			if tc.want == nil {
				if len(got) > 0 {
					t.Errorf("lines: %q", got)
				}
				return
			}
			if len(got) != tc.before+1 {
				t.Fatalf("%d lines, want %d: %q", len(got), tc.before+1, got)
			}
			last := got[tc.before]
			if strings.Contains(last, canary) || strings.Contains(last, secret) {
				t.Errorf("%q tells a secret", last)
			}
			var line map[string]any
			if err := json.Unmarshal([]byte(last), &line); err != nil {
				t.Fatal(err)
			}
			if tc.want["jti"] != nil {
				tc.want["jti"] = payload(t, accessToken(t, answer))["jti"]
			}
			if diff := cmp.Diff(tc.want, line); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// name gives the one secret of a client an id, and makes one that may get a token a second of "limited".
func (s *server) name(t testing.TB, realm, id, secretID string) {
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

// Of several secrets the one that was right is named, of whichever kind.
func TestAuditNamesTheSecret(t *testing.T) {
	withAudit, lines := audited(t)
	s := startHuman(t, withAudit)
	client := s.clientOf(t, "HTTP/2")
	named := credentials(t, secret, time.Time{})
	named = append(named, credentials(t, ending, time.Time{})...)
	for _, human := range []string{password, newer} {
		c := credentials(t, "", time.Time{})[0]
		c.Verifier = slowly(t, human)
		named = append(named, c)
	}
	ids := []string{"fast-1", "fast-2", "slow-1", "slow-2"}
	for i, id := range ids {
		named[i].ID = id
	}
	s.registry.SetClient(newClient(t, "human", "many", withSecrets(named...)))
	want := []string{}
	for range 2 { // slow ones the second time from memory
		for i, value := range []string{secret, ending, password, newer} {
			if a := s.send(t, client, request{path: humanPath, query: grant, authorization: basic("many", value)}); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
			want = append(want, ids[i])
		}
	}
	got := []string{}
	for _, line := range lines() {
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e.SecretID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
