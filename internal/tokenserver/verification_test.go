package tokenserver_test

import (
	"cmp"
	"net/http"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	verifyPath     = "/acme/oauth2/verify"
	introspectPath = "/acme/oauth2/introspect"

	noChallenge       = ""
	bareChallenge     = "Bearer"
	invalidToken      = `Bearer error="invalid_token"`
	insufficientScope = `Bearer error="insufficient_scope"`
)

// TestVerify goes through what a gateway can ask, with the token of a client that has the
// scopes orders:read, orders:write and stock, and the audiences orders and stock.
func TestVerify(t *testing.T) {
	s := startLoaded(t)
	token := issued(t, s, "billing", "")
	bearer := "Bearer " + token
	for name, test := range map[string]struct {
		path, query   string
		authorization []string
		method        string // GET

		wantStatus    int
		wantChallenge string
	}{
		"a token":                            {authorization: []string{bearer}, wantStatus: 200},
		"the scheme in another case":         {authorization: []string{"bearer  " + token + " "}, wantStatus: 200},
		"a scope that it has":                {authorization: []string{bearer}, query: "scope=stock", wantStatus: 200},
		"scopes that it has":                 {authorization: []string{bearer}, query: "scope=stock+orders:read", wantStatus: 200},
		"an audience that it has":            {authorization: []string{bearer}, query: "audience=" + stock, wantStatus: 200},
		"both":                               {authorization: []string{bearer}, query: "scope=stock&audience=" + orders, wantStatus: 200},
		"another parameter":                  {authorization: []string{bearer}, query: "x=1&x=2", wantStatus: 200},
		"the request's method":               {authorization: []string{bearer}, method: http.MethodDelete, wantStatus: 200},
		"the request's path behind ours":     {path: verifyPath + "/orders/1", authorization: []string{bearer}, wantStatus: 200},
		"behind ours, the root":              {path: verifyPath + "/", query: "scope=admin", authorization: []string{bearer}, wantStatus: 200},
		"behind ours, a directory":           {path: verifyPath + "/orders/", authorization: []string{bearer}, wantStatus: 200},
		"behind ours, of odd form":           {path: verifyPath + "//a/../..//b", authorization: []string{bearer}, wantStatus: 200},
		"behind ours, another realm's":       {path: verifyPath + "/../../../frozen/oauth2/verify", authorization: []string{bearer}, wantStatus: 200},
		"behind another realm's":             {path: "/frozen/oauth2/verify/acme", authorization: []string{bearer}, wantStatus: 401, wantChallenge: invalidToken},
		"the caller's query, not the gate's": {path: verifyPath + "/orders", query: "scope=admin&scope=%zz", authorization: []string{bearer}, wantStatus: 200},

		"a scope that it lacks":     {authorization: []string{bearer}, query: "scope=stock+admin", wantStatus: 403, wantChallenge: insufficientScope},
		"a part of a scope":         {authorization: []string{bearer}, query: "scope=orders", wantStatus: 403, wantChallenge: insufficientScope},
		"an audience that it lacks": {authorization: []string{bearer}, query: "audience=" + stock + "/", wantStatus: 403, wantChallenge: insufficientScope},
		"one that it lacks of both": {authorization: []string{bearer}, query: "scope=stock&audience=x", wantStatus: 403, wantChallenge: insufficientScope},

		"no token":                  {wantStatus: 401, wantChallenge: bareChallenge},
		"no token, scope asked for": {query: "scope=stock", wantStatus: 401, wantChallenge: bareChallenge},
		"another scheme":            {authorization: []string{good}, wantStatus: 401, wantChallenge: bareChallenge},
		"a scheme alone":            {authorization: []string{"Bearer "}, wantStatus: 401, wantChallenge: bareChallenge},
		"a token in the query":      {query: "access_token=" + token, wantStatus: 401, wantChallenge: bareChallenge},
		"something else":            {authorization: []string{"Bearer " + canary}, wantStatus: 401, wantChallenge: invalidToken},
		"two tokens in one header":  {authorization: []string{bearer + " " + token}, wantStatus: 401, wantChallenge: invalidToken},
		"two headers":               {authorization: []string{bearer, bearer}, wantStatus: 401, wantChallenge: invalidToken},
		"at another realm":          {path: "/frozen/oauth2/verify", authorization: []string{bearer}, wantStatus: 401, wantChallenge: invalidToken},

		"at no realm":             {path: "/nowhere/oauth2/verify", authorization: []string{bearer}, wantStatus: 404},
		"a parameter twice":       {authorization: []string{bearer}, query: "scope=stock&scope=stock", wantStatus: 400},
		"a malformed requirement": {authorization: []string{bearer}, query: "scope=%zz", wantStatus: 400},
	} {
		t.Run(name, func(t *testing.T) {
			for protocol := range protocols {
				got := s.send(t, s.clientOf(t, protocol), request{
					method: cmp.Or(test.method, http.MethodGet), path: cmp.Or(test.path, verifyPath), query: test.query,
					header: http.Header{
						"Authorization": test.authorization,
						// What a caller sets reaches the API unless the gateway has it to replace.
						"X-Auth-Client-Id": {canary},
					},
				})
				if got.status != test.wantStatus || got.header.Get("WWW-Authenticate") != test.wantChallenge {
					t.Fatalf("%s: %d with challenge %q: %s", protocol, got.status, got.header.Get("WWW-Authenticate"), got.body)
				}
				if got.header.Get("Cache-Control") != "no-store" {
					t.Error("the answer may be cached")
				}
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

// A client without scopes has an empty header, which a gateway can replace a caller's by.
func TestVerifyTellsThatThereIsNoScope(t *testing.T) {
	s := startLoaded(t)
	got := verified(t, s, issued(t, s, "plain", ""))
	if values, ok := got.header["X-Auth-Scope"]; got.status != 200 || !ok || values[0] != "" {
		t.Errorf("status %d, X-Auth-Scope %q", got.status, values)
	}
}

// A valid signature isn't enough: what ends a client's right to tokens ends those that it
// has, at verify and at introspection alike.
func TestSwitchesEndTokens(t *testing.T) {
	second := now.Truncate(time.Second)
	for name, test := range map[string]struct {
		realm  func(*registry.RealmSettings)
		client func(*registry.Client)
		gone   bool
		want   bool
	}{
		"nothing changed":                 {want: true},
		"client suspended":                {client: func(c *registry.Client) { c.Disabled = true }},
		"client expired":                  {client: func(c *registry.Client) { c.ExpiresAt = now }},
		"client expires later":            {client: func(c *registry.Client) { c.ExpiresAt = now.Add(time.Second) }, want: true},
		"client's tokens revoked":         {client: func(c *registry.Client) { c.TokensValidAfter = second.Add(time.Second) }},
		"client's older tokens revoked":   {client: func(c *registry.Client) { c.TokensValidAfter = second }, want: true},
		"client deleted":                  {gone: true},
		"client made again":               {client: func(c *registry.Client) { c.UID, c.CreatedAt = "another", second.Add(time.Second) }},
		"client whose secret has changed": {client: func(c *registry.Client) { c.Secrets = nil }, want: true},
		"realm suspended":                 {realm: func(r *registry.RealmSettings) { r.Disabled = true }},
		"realm's tokens revoked":          {realm: func(r *registry.RealmSettings) { r.TokensValidAfter = second.Add(time.Second) }},
		"realm's older tokens revoked":    {realm: func(r *registry.RealmSettings) { r.TokensValidAfter = second }, want: true},
		"key removed":                     {realm: withKeys(signingkey.EdDSA)},
		"key retiring behind another":     {realm: withKeys(signingkey.EdDSA, signingkey.ES256), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startLoaded(t)
			token := issued(t, s, "billing", "")
			s.registry.SetRealm(newRealm(t, "acme", test.realm))
			s.registry.RemoveClient("acme.billing")
			if !test.gone {
				s.registry.SetClient(newClient(t, "acme", "billing", test.client))
			}
			holds(t, s, token, test.want)
		})
	}
}

// Tokens end with their lifetime, and one from a clock that runs ahead counts when it is
// ahead by no more than 30 seconds.
func TestVerifyAtOtherTimes(t *testing.T) {
	for name, test := range map[string]struct {
		later time.Duration
		want  bool
	}{
		"in its last second":    {5*time.Minute - time.Second, true},
		"at its end":            {5*time.Minute - 500*time.Millisecond, false},
		"issued a little ahead": {-29 * time.Second, true},
		"issued far ahead":      {-32 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := startLoaded(t)
			token := issued(t, issuer, "billing", "")
			s := startLoaded(t, func(o *tokenserver.Options) { o.Now = func() time.Time { return now.Add(test.later) } })
			s.registry.SetClient(newClient(t, "acme", "billing", func(c *registry.Client) { c.CreatedAt = now.Add(-time.Hour) }))
			if got := verified(t, s, token); (got.status == 200) != test.want {
				t.Errorf("status %d", got.status)
			}
		})
	}
}

func TestVerifyBeforeTheFirstLoad(t *testing.T) {
	s := start(t)
	got := verified(t, s, "x")
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
}

// withKeys gives a realm the keys of those algorithms, the first one active.
func withKeys(active signingkey.Algorithm, retiring ...signingkey.Algorithm) func(*registry.RealmSettings) {
	return func(r *registry.RealmSettings) {
		r.Keys = []signingkey.Key{keyIn(signingkey.Active, active)}
		for _, algorithm := range retiring {
			r.Keys = append(r.Keys, keyIn(signingkey.Retiring, algorithm))
		}
	}
}

// issued returns a token of a client of acme.
func issued(t testing.TB, s *server, client, more string) string {
	t.Helper()
	return accessToken(t, s.send(t, s.clientOf(t, "HTTP/1.1"), request{query: grant + more, authorization: basic(client, secret)}))
}

// verified is the answer about a token at acme.
func verified(t testing.TB, s *server, token string) answer {
	t.Helper()
	return s.send(t, s.clientOf(t, "HTTP/1.1"), request{method: http.MethodGet, path: verifyPath, authorization: "Bearer " + token})
}

// holds checks that verify and introspection both take the token for valid, or both don't.
func holds(t *testing.T, s *server, token string, want bool) {
	t.Helper()
	if got := verified(t, s, token); (got.status == http.StatusOK) != want || !want && got.header.Get("WWW-Authenticate") != invalidToken {
		t.Errorf("verify answers %d %q to %s", got.status, got.header.Get("WWW-Authenticate"), token)
	}
	// A client that none of these tests touches asks.
	got := s.send(t, s.clientOf(t, "HTTP/1.1"), request{path: introspectPath, body: "token=" + token, authorization: basic("plain", secret)})
	if want && (got.status != http.StatusOK || got.body == inactive) || !want && got.body != inactive && got.status != http.StatusUnauthorized {
		t.Errorf("introspection answers %d %s to %s", got.status, got.body, token)
	}
}
