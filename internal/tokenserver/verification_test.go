package tokenserver_test

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	verifyPath     = "/acme/oauth2/verify"
	introspectPath = "/acme/oauth2/introspect"

	bareChallenge     = "Bearer"
	invalidToken      = `Bearer error="invalid_token"`
	insufficientScope = `Bearer error="insufficient_scope"`
)

// The client has the scopes orders:read, orders:write and stock, and the audiences orders and
// stock.
func TestVerification(t *testing.T) {
	s := startLoaded(t)
	token := issued(t, s, "billing", "")
	bearer := "Bearer " + token
	require := requirePath("audience=" + orders + "&scope=stock")
	for name, test := range map[string]struct {
		path, query   string
		authorization []string
		method        string // defaults to GET

		wantStatus    int
		wantChallenge string
	}{
		"valid token":                    {authorization: []string{bearer}, wantStatus: 200},
		"method of the API request":      {authorization: []string{bearer}, method: http.MethodDelete, wantStatus: 200},
		"requirements in the path":       {path: require, authorization: []string{bearer}, wantStatus: 200},
		"appended path":                  {path: require + "/orders/1", authorization: []string{bearer}, wantStatus: 200},
		"path appended to another realm": {path: strings.Replace(require, "acme", "frozen", 1) + "/acme", authorization: []string{bearer}, wantStatus: 401, wantChallenge: invalidToken + `, scope="stock"`},
		"query of the API request":       {path: require + "/orders", query: "scope=admin&scope=%zz&x", authorization: []string{bearer}, wantStatus: 200},

		"missing audience": {authorization: []string{bearer}, query: "audience=" + stock + "/", wantStatus: 403, wantChallenge: insufficientScope},
		"missing scope":    {authorization: []string{bearer}, query: "scope=stock+admin", wantStatus: 403, wantChallenge: insufficientScope + `, scope="stock admin"`},

		"no token":                   {wantStatus: 401, wantChallenge: bareChallenge},
		"another scheme":             {authorization: []string{good}, wantStatus: 401, wantChallenge: bareChallenge},
		"scope that can't be quoted": {query: "scope=" + url.QueryEscape(`x" resource_metadata="https://x`), wantStatus: 401, wantChallenge: bareChallenge},
		"DPoP without requirement":   {authorization: []string{"DPoP " + token}, wantStatus: 401, wantChallenge: bareChallenge},
		"only the scheme":            {authorization: []string{"Bearer "}, wantStatus: 401, wantChallenge: bareChallenge},
		"malformed token":            {authorization: []string{"Bearer " + canary}, wantStatus: 401, wantChallenge: invalidToken},

		"unknown realm":        {path: "/unknown/oauth2/verify", authorization: []string{bearer}, wantStatus: 404},
		"path without require": {path: verifyPath + "/orders/1", authorization: []string{bearer}, wantStatus: 400},
	} {
		t.Run(name, func(t *testing.T) {
			for protocol := range protocols {
				got := s.send(t, s.clientOf(t, protocol), request{
					method: cmp.Or(test.method, http.MethodGet), path: cmp.Or(test.path, verifyPath), query: test.query,
					header: http.Header{
						"Authorization": test.authorization,
						// The response header must overwrite any value sent by the caller.
						"X-Auth-Client-Id": {canary},
					},
				})
				if got.status != test.wantStatus || got.header.Get("WWW-Authenticate") != test.wantChallenge {
					t.Fatalf("%s: got %d with challenge %q, want %d with %q: %s", protocol, got.status, got.header.Get("WWW-Authenticate"), test.wantStatus, test.wantChallenge, got.body)
				}
				testkit.Diff(t, "Cache-Control", "no-store", got.header.Get("Cache-Control"))
				if test.wantStatus != 200 {
					continue
				}
				for header, want := range map[string]string{
					"X-Auth-Client-Id": "billing", "X-Auth-Realm": "acme", "X-Auth-Scope": "orders:read orders:write stock",
				} {
					if values := got.header.Values(header); len(values) != 1 || values[0] != want {
						t.Errorf("%s: %q, want %q", header, values, want)
					}
				}
			}
		})
	}
}

// A gateway that appends the path and the query of the API request to the endpoint's path lets the
// caller write the end of the request target. No such end makes a token meet the requirements if it
// doesn't meet them alone, or another realm decide.
func TestCallersOfTheAPICannotChangeRequirements(t *testing.T) {
	s := startLoaded(t)
	s.registry.SetRealm(newRealm(t, "other", nil))
	s.registry.SetClient(newClient(t, "other", "billing", func(c *registry.Client) { c.Scopes = []string{"orders:read", "admin"} }))
	good := issued(t, s, "billing", "")
	insufficient := issued(t, s, "plain", "") // lacks the scope and the audience
	ofOther := accessToken(t, s.send(t, s.direct(), request{path: "/other/oauth2/token", query: grant, authorization: basic("billing", secret)}))
	require, weaker := requirePath("audience="+orders+"&scope=orders:read"), requirePath("audience="+stock)
	ends := []string{"", "?audience=" + stock + "&scope=", "/#/x"}
	for _, up := range []string{
		"..", ".", "%2e%2e", "%2E.", ".%2e", "..;", "..;/x", ";..", "..%2f..", "..%5c..", `..\..`, `\..\`, "", "%2f", "%252e%252e", "%00", "..%00", "...",
	} {
		for _, depth := range []int{1, 3, 5} {
			climb := strings.Repeat("/"+up, depth)
			ends = append(ends, climb, climb+"/", climb+"?audience="+stock, climb+weaker, climb+"/"+weaker[1:]+"/orders",
				climb+strings.TrimPrefix(weaker, "/acme"), climb+strings.TrimPrefix(weaker, "/acme/oauth2"), climb+strings.TrimPrefix(weaker, verifyPath),
				climb+verifyPath, climb+"/other/oauth2/verify", climb+"/other"+strings.TrimPrefix(require, "/acme"))
		}
	}
	for token, want := range map[string]int{good: http.StatusOK, insufficient: http.StatusForbidden, ofOther: http.StatusUnauthorized} {
		var targets []string
		var requests strings.Builder
		for _, end := range ends {
			for _, prefix := range []string{require, require + "/x"} {
				targets = append(targets, prefix+end)
				requests.WriteString("GET " + prefix + end + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + token + "\r\n\r\n")
			}
		}
		got := responses(t, s.exchange(t, requests.String()+"GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"))
		if len(got) != len(targets)+1 {
			t.Fatalf("got %d responses to %d requests", len(got), len(targets)+1)
		}
		for i, target := range targets {
			if got[i].status != want || want == http.StatusOK && got[i].header.Get("X-Auth-Realm") != "acme" {
				t.Errorf("%s: got status %d and realm %q, want %d", target, got[i].status, got[i].header.Get("X-Auth-Realm"), want)
			}
		}
	}
}

// The header must be present even if there are no scopes, so that the gateway overwrites any value
// sent by the caller.
func TestVerificationOfClientWithoutScopesSetsEmptyHeader(t *testing.T) {
	s := startLoaded(t)
	got := verified(t, s, issued(t, s, "plain", ""))
	if values, ok := got.header["X-Auth-Scope"]; got.status != 200 || !ok || values[0] != "" {
		t.Errorf("got status %d and X-Auth-Scope %q, want 200 and an empty value", got.status, values)
	}
}

// Suspension, expiration and revocation also invalidate a client's existing tokens, for both
// verification and introspection.
func TestDisabledClientsAndRealmsInvalidateTokens(t *testing.T) {
	second := now.Truncate(time.Second)
	for name, test := range map[string]struct {
		realm   func(*registry.RealmSettings)
		client  func(*registry.Client)
		deleted bool
		want    bool
	}{
		"nothing changed":                {want: true},
		"client suspended":               {client: func(c *registry.Client) { c.Disabled = true }},
		"client expired":                 {client: func(c *registry.Client) { c.ExpiresAt = now }},
		"tokens of the client revoked":   {client: func(c *registry.Client) { c.TokensValidAfter = second.Add(time.Second) }},
		"older tokens of client revoked": {client: func(c *registry.Client) { c.TokensValidAfter = second }, want: true},
		"client deleted":                 {deleted: true},
		"client recreated":               {client: func(c *registry.Client) { c.UID, c.Identity = "another", "another" }},
		"client restored from a backup":  {client: func(c *registry.Client) { c.Identity = "another" }, want: true},
		"realm suspended":                {realm: func(r *registry.RealmSettings) { r.Disabled = true }},
		"tokens of the realm revoked":    {realm: func(r *registry.RealmSettings) { r.TokensValidAfter = second.Add(time.Second) }},
		"key removed":                    {realm: withKeys(signingkey.EdDSA)},
		"key retiring":                   {realm: withKeys(signingkey.EdDSA, signingkey.ES256), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startLoaded(t)
			token := issued(t, s, "billing", "")
			checkValid(t, s, token, true) // remembered from here on
			s.registry.SetRealm(newRealm(t, "acme", test.realm))
			s.registry.Remove("acme.billing")
			if !test.deleted {
				s.registry.SetClient(newClient(t, "acme", "billing", test.client))
			}
			checkValid(t, s, token, test.want)
		})
	}
}

// A client that is created with the ID of a deleted client doesn't inherit its tokens, even if the
// clocks of the servers differ.
func TestTokensOfAPredecessorAreRejected(t *testing.T) {
	for name, issuedAt := range map[string]time.Duration{
		"issued before": -4 * time.Minute, "issued in the same instant": 0, "issued by a server whose clock is ahead": 29 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			before := startLoaded(t, func(o *tokenserver.Options) { o.Now = func() time.Time { return now.Add(issuedAt) } })
			token := issued(t, before, "billing", "")
			s := startLoaded(t)
			checkValid(t, s, token, true)
			s.registry.SetClient(newClient(t, "acme", "billing", func(c *registry.Client) { c.UID, c.Identity = "successor", "successor" }))
			checkValid(t, s, token, false)
			checkValid(t, s, issued(t, s, "billing", ""), true)
			// Its own introspection requests are no exception.
			if got := s.send(t, s.direct(), request{path: introspectPath, body: "token=" + token, authorization: good}); got.body != inactive {
				t.Errorf("the successor introspects the token of its predecessor: %s", got.body)
			}
		})
	}
}

// A token is valid until it expires. The clock of the issuing server may be up to 30 seconds ahead.
func TestVerificationOfTokenTimes(t *testing.T) {
	for name, test := range map[string]struct {
		later time.Duration
		want  bool
	}{
		"just before expiration": {5*time.Minute - time.Second, true},
		"at expiration":          {5*time.Minute - 500*time.Millisecond, false},
		"issued 29 s ahead":      {-29 * time.Second, true},
		"issued 32 s ahead":      {-32 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := startLoaded(t)
			token := issued(t, issuer, "billing", "")
			s := startLoaded(t, func(o *tokenserver.Options) { o.Now = func() time.Time { return now.Add(test.later) } })
			testkit.Diff(t, "accepted", test.want, (verified(t, s, token).status == 200))
		})
	}
}

// requirePath returns the path with the given requirements.
func requirePath(query string) string {
	return verifyPath + "/require/" + base64.RawURLEncoding.EncodeToString([]byte(query))
}

// withKeys replaces the realm's keys with one key for each given algorithm.
func withKeys(active signingkey.Algorithm, retiring ...signingkey.Algorithm) func(*registry.RealmSettings) {
	return func(r *registry.RealmSettings) {
		r.Keys = []signingkey.Key{keyIn(signingkey.Active, active)}
		for _, algorithm := range retiring {
			r.Keys = append(r.Keys, keyIn(signingkey.Retiring, algorithm))
		}
	}
}

// issued returns a new token for a client of the realm acme.
func issued(t testing.TB, s *server, client, more string) string {
	t.Helper()
	return accessToken(t, s.send(t, s.direct(), request{query: grant + more, authorization: basic(client, secret)}))
}

// verified returns the realm acme's verification response for a token.
func verified(t testing.TB, s *server, token string) response {
	t.Helper()
	return s.send(t, s.direct(), request{method: http.MethodGet, path: verifyPath, authorization: "Bearer " + token})
}

// checkValid checks whether verification and introspection accept a token.
func checkValid(t *testing.T, s *server, token string, want bool) {
	t.Helper()
	if got := verified(t, s, token); (got.status == http.StatusOK) != want || !want && got.header.Get("WWW-Authenticate") != invalidToken {
		t.Errorf("verification responds with %d and challenge %q, want valid: %t, token %s", got.status, got.header.Get("WWW-Authenticate"), want, token)
	}
	// The introspecting client must not be changed by the calling tests.
	got := s.send(t, s.direct(), request{path: introspectPath, body: "token=" + token, authorization: basic("gateway", secret)})
	if want && (got.status != http.StatusOK || got.body == inactive) || !want && got.body != inactive && got.status != http.StatusUnauthorized {
		t.Errorf("introspection responds with %d %s, want valid: %t, token %s", got.status, got.body, want, token)
	}
}
