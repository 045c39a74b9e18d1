package tokenserver_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/limiter"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
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
			if err := log.Close(t.Context()); err != nil {
				t.Error(err)
			}
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
		"by client_secret_post":    {request{body: grant + "&client_id=plain&client_secret=" + secret}, 0, right("plain", map[string]any{"outcome": "granted", "jti": "of the token"})},
		"a wrong secret":           {query("billing", canary), 0, of("billing", map[string]any{"reason": "wrong_secret"})},
		"an expired secret":        {query("rotating", expiredSecret), 0, of("rotating", map[string]any{"reason": "wrong_secret"})},
		"an unknown client":        {query("unknown", canary), 0, want(map[string]any{"reason": "unknown_client"})},
		"a very long client ID":    {query(strings.Repeat("ä", 1000), canary), 0, want(map[string]any{"reason": "unknown_client"})},
		"a suspended client":       {query("suspended", secret), 0, right("suspended", map[string]any{"reason": "client_disabled"})},
		"an expired client":        {query("expired", secret), 0, right("expired", map[string]any{"reason": "client_expired"})},
		"a suspended realm":        {request{path: "/frozen/oauth2/token", query: grant, authorization: basic("billing", secret)}, 0, map[string]any{"time": "2026-03-01T12:00:00.5Z", "action": "token", "outcome": "refused", "reason": "realm_disabled", "realm": "frozen", "clientId": "billing", "clientUid": "frozen.billing", "secretId": "the-id", "source": source}},
		"no credentials":           {request{query: grant}, 0, want(map[string]any{"reason": "no_credentials"})},
		"broken Basic":             {request{query: grant, authorization: "Basic " + canary + "!"}, 0, want(map[string]any{"reason": "no_credentials"})},
		"two methods":              {request{body: grant + "&client_secret=" + canary, authorization: good}, 0, want(map[string]any{"reason": "invalid_request"})},
		"different client_id":      {request{body: grant + "&client_id=plain", authorization: good}, 0, want(map[string]any{"reason": "invalid_request"})},
		"no grant type":            {request{authorization: good}, 0, right("billing", map[string]any{"reason": "invalid_request"})},
		"unknown grant type":       {request{query: "grant_type=password", authorization: good}, 0, right("billing", map[string]any{"reason": "unsupported_grant_type"})},
		"unknown scope":            {request{query: grant + "&scope=" + canary, authorization: good}, 0, right("billing", map[string]any{"reason": "invalid_scope"})},
		"unknown audience":         {request{query: grant + "&audience=" + canary, authorization: good}, 0, right("billing", map[string]any{"reason": "invalid_target"})},
		"too many failures":        {query("billing", canary), limiter.FailureBurst, of("billing", map[string]any{"reason": "too_many_failures"})},
		"too many tokens":          {query("limited", secret), 1, right("limited", map[string]any{"reason": "too_many_tokens"})},
		"a secret in the query":    {request{query: grant + "&client_secret=" + canary, authorization: good}, 0, want(map[string]any{"reason": "credentials_exposed"})},
		"a secret and GET":         {request{method: "GET", query: "client_secret=" + canary}, 0, want(map[string]any{"realm": nil, "reason": "credentials_exposed"})},
		"introspection":            {request{path: "/acme/oauth2/introspect", body: "token=" + canary, authorization: good}, 0, right("billing", map[string]any{"action": "introspection", "outcome": "granted"})},
		"failed introspection":     {request{path: "/acme/oauth2/introspect", body: "token=" + canary, authorization: basic("billing", canary)}, 0, of("billing", map[string]any{"action": "introspection", "reason": "wrong_secret"})},
		"no token to introspect":   {request{path: "/acme/oauth2/introspect", authorization: good}, 0, right("billing", map[string]any{"action": "introspection", "reason": "invalid_request"})},
		"verification":             {request{method: "GET", path: "/acme/oauth2/verify", authorization: "Bearer " + canary}, 0, nil},
		"GET":                      {request{method: "GET", query: grant}, 0, nil},
		"an unknown realm":         {request{path: "/" + canary + "/oauth2/token", query: grant, authorization: good}, 0, nil},
		"a malformed request":      {request{query: "scope=%zz" + canary, authorization: good}, 0, nil},
		"key set":                  {request{method: "GET", path: "/acme/oauth2/jwks"}, 0, nil},
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
	if err := testutil.GatherAndCompare(s.metrics, strings.NewReader(counted), "realmkeeper_introspections_total"); err != nil {
		t.Error(err)
	}
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
			if a := s.send(t, client, request{path: argon2idPath, query: grant, authorization: basic("many", value)}); a.status != 200 {
				t.Errorf("got %d %s, want 200", a.status, a.body)
			}
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

// blockedSink doesn't accept lines before it is released.
type blockedSink struct {
	logBuffer
	released chan struct{}
}

func (s *blockedSink) Write(p []byte) (int, error) {
	<-s.released
	return s.logBuffer.Write(p)
}

// Junk from many addresses doesn't displace the line of a single real decision, even if the sink
// accepts nothing during the flood. Every event is written, or counted as suppressed.
func TestFloodOfJunkDoesNotDisplaceDecisions(t *testing.T) {
	const (
		floods    = 4
		junk      = 6000 // requests per flood, in total more than the log buffers
		decisions = 500  // of each kind
	)
	out := &blockedSink{released: make(chan struct{})}
	log := audit.Open(out, slog.New(slog.DiscardHandler), func() time.Time { return now })
	s := startLoaded(t, behindProxy, func(o *tokenserver.Options) { o.Audit = log })
	send := func(source netip.Addr, query, authorization string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+tokenPath+"?"+query, http.NoBody)
		r.RemoteAddr = "127.0.0.1:1234"
		r.Header.Set("X-Forwarded-For", source.String())
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		return w.Code
	}
	address := func(a, i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(a), byte(i >> 8), byte(i)}) }

	var senders sync.WaitGroup
	for flood := range floods {
		senders.Go(func() {
			kinds := []struct{ query, authorization string }{
				{grant, basic("unknown", canary)}, {grant, "Basic " + canary}, {grant + "&client_secret=" + canary, good},
			}
			for i := range junk {
				kind := kinds[i%len(kinds)]
				if status := send(address(flood, i), kind.query, kind.authorization); status/100 != 4 {
					t.Errorf("junk: got status %d, want a client error", status)
				}
			}
		})
	}
	senders.Go(func() {
		for i := range decisions {
			if status := send(address(100, i), grant, good); status != http.StatusOK {
				t.Errorf("correct secret: got status %d, want 200", status)
			}
			if status := send(address(101, i), grant, basic("billing", canary)); status != http.StatusUnauthorized {
				t.Errorf("wrong secret: got status %d, want 401", status)
			}
		}
	})
	senders.Wait()
	close(out.released)
	testkit.Do(t, log.Close(t.Context()))

	got := map[audit.Reason]int{}
	var written, suppressed uint64
	for line := range strings.Lines(out.String()) {
		var e audit.Event
		testkit.Do(t, json.Unmarshal([]byte(line), &e))
		if e.Action == audit.ActionAudit {
			suppressed += e.Suppressed
			continue
		}
		written++
		got[e.Reason]++
	}
	anonymous := got[audit.ReasonUnknownClient] + got[audit.ReasonNoCredentials]
	delete(got, audit.ReasonUnknownClient)
	delete(got, audit.ReasonNoCredentials)
	want := map[audit.Reason]int{"": decisions, audit.ReasonWrongSecret: decisions, audit.ReasonCredentialsExposed: 1000}
	if diff := cmp.Diff(want, got); diff != "" || anonymous != 1000 {
		t.Errorf("%d lines about unknown clients, want 1000; others by reason (-want +got):\n%s", anonymous, diff)
	}
	if sent := uint64(floods*junk + 2*decisions); written+suppressed+log.Lost() != sent || suppressed != log.Suppressed() {
		t.Errorf("%d written, %d suppressed and %d lost events of %d; the log counted %d as suppressed", written, suppressed, log.Lost(), sent, log.Suppressed())
	}
	if n := strings.Count(s.log.String(), "Received credentials in the query string"); n != 1 {
		t.Errorf("the log warns %d times within a second about credentials in the query, want once", n)
	}
}
