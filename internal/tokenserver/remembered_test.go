package tokenserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Everything is checked again for a token whose signature is remembered, so that the responses are those of a
// server that remembers nothing. Other tests present delegated tokens, and those of clients that change, twice.
func TestRememberedTokensAreChecked(t *testing.T) {
	client := func(change func(*registry.Client)) func(*testing.T, *server) {
		return func(t *testing.T, s *server) { s.setNaive(t, change) }
	}
	realm := func(changes ...func(*registry.RealmSettings)) func(*testing.T, *server) {
		return func(t *testing.T, s *server) { s.setAcme(t, changes...) }
	}
	introspecting := func(audiences ...string) func(*testing.T, *server) {
		return func(t *testing.T, s *server) {
			s.registry.SetClient(newClient(t, "acme", "gateway", func(c *registry.Client) { c.Introspects = audiences }))
		}
	}
	second := now.Truncate(time.Second)
	for name, tc := range map[string]struct {
		change            func(*testing.T, *server)
		later             time.Duration
		requirements      string
		path              string // defaults to that of the realm acme
		wantVerified      int    // defaults to 401
		wantIntrospection bool
	}{
		"nothing changed":      {wantVerified: 200, wantIntrospection: true},
		"required scope":       {requirements: "scope=stock", wantVerified: 200, wantIntrospection: true},
		"missing scope":        {requirements: "scope=admin", wantVerified: 403, wantIntrospection: true},
		"missing audience":     {requirements: "audience=billing", wantVerified: 403, wantIntrospection: true},
		"claims in headers":    {requirements: "claims=tenant", wantVerified: 200, wantIntrospection: true},
		"DPoP by requirement":  {requirements: "dpop=original", wantVerified: 200, wantIntrospection: true},
		"lost introspection":   {change: introspecting(), wantVerified: 200},
		"other introspection":  {change: introspecting("billing"), wantVerified: 200},
		"fewer granted scopes": {change: client(func(c *registry.Client) { c.Scopes = nil }), wantVerified: 200, wantIntrospection: true},

		"just before expiration": {later: 5*time.Minute - 501*time.Millisecond, wantVerified: 200, wantIntrospection: true},
		"expiration":             {later: 5*time.Minute - 500*time.Millisecond},
		"clock set back":         {later: -30 * time.Second, wantVerified: 200, wantIntrospection: true},
		"clock set back more":    {later: -31 * time.Second},

		"suspended client":    {change: client(func(c *registry.Client) { c.Disabled = true })},
		"expired client":      {change: client(func(c *registry.Client) { c.ExpiresAt = now })},
		"client that expires": {change: client(func(c *registry.Client) { c.ExpiresAt = now.Add(time.Millisecond) }), wantVerified: 200, wantIntrospection: true},
		"deleted client":      {change: func(_ *testing.T, s *server) { s.registry.Remove("acme.naive") }},
		"recreated client":    {change: client(func(c *registry.Client) { c.UID, c.Identity = "another", "another" })},
		"restored client":     {change: client(func(c *registry.Client) { c.Identity = "another" }), wantVerified: 200, wantIntrospection: true},
		"DPoP required":       {change: client(func(c *registry.Client) { c.DPoP = true })},
		"tokens revoked in the second of the token": {change: client(func(c *registry.Client) { c.TokensValidAfter = second }), wantVerified: 200, wantIntrospection: true},
		"tokens revoked in the next second":         {change: client(func(c *registry.Client) { c.TokensValidAfter = second.Add(time.Second) })},

		"suspended realm":     {change: realm(func(r *registry.RealmSettings) { r.Disabled = true })},
		"deleted realm":       {change: func(_ *testing.T, s *server) { s.registry.Remove("realm-acme") }, wantVerified: 404},
		"all tokens revoked":  {change: realm(func(r *registry.RealmSettings) { r.TokensValidAfter = second.Add(time.Second) })},
		"another issuer":      {change: realm(func(r *registry.RealmSettings) { r.Issuer += "2" })},
		"key withdrawn":       {change: realm(withKeys(signingkey.EdDSA))},
		"key retiring":        {change: realm(withKeys(signingkey.EdDSA, signingkey.ES256)), wantVerified: 200, wantIntrospection: true},
		"realm written again": {change: realm(), wantVerified: 200, wantIntrospection: true},
		"at another realm":    {path: "/frozen"},
		"sealed active key": {change: realm(func(r *registry.RealmSettings) {
			active := keyIn(signingkey.Active, signingkey.ES256)
			r.Keys = []signingkey.Key{active.Seal(signingkey.Sealed{RealmUID: r.UID, KeyID: "1"})}
		}), wantVerified: 200, wantIntrospection: true},
		"recreated realm with the same key": {change: func(t *testing.T, s *server) {
			s.registry.Remove("realm-acme")
			s.setAcme(t, func(r *registry.RealmSettings) { r.UID = "another" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			both := startRemembering(t)
			token := accessToken(t, both.remembering.send(t, both.remembering.direct(), naive("")))
			checkValid(t, both.remembering, token, true)
			if tc.change != nil {
				both.change(func(s *server) { tc.change(t, s) })
			}
			both.at = both.at.Add(tc.later)
			path := tc.path
			if path == "" {
				path = "/acme"
			}
			if tc.wantVerified == 0 {
				tc.wantVerified = 401
			}
			ask := func(s *server) [2]string {
				verified := s.send(t, s.direct(), request{method: http.MethodGet, path: path + "/oauth2/verify", query: tc.requirements, authorization: "Bearer " + token})
				introspected := s.send(t, s.direct(), request{path: path + "/oauth2/introspect", body: "token=" + token, authorization: basic("gateway", secret)})
				expectStatus(t, "verification", tc.wantVerified, verified)
				testkit.Diff(t, "introspection", tc.wantIntrospection, strings.HasPrefix(introspected.body, `{"active":true`))
				return [2]string{fmt.Sprint(verified), fmt.Sprint(introspected)}
			}
			testkit.Diff(t, "responses", ask(both.forgetful), ask(both.remembering))
		})
	}
}

// A proof works once, and for its token, also if the token is remembered.
func TestProofsForRememberedTokensAreChecked(t *testing.T) {
	s := startWithDPoP(t)
	token := bound(t, s, "billing")
	sign := func(p proof) string {
		p.method, p.url = "GET", apiURL
		return p.sign(t)
	}
	own := sign(proof{token: token})
	for _, tc := range []struct {
		name   string
		header http.Header
		want   int
	}{
		{"first use", original("DPoP "+token, own), 200},
		{"another proof", original("DPoP "+token, sign(proof{token: token})), 200},
		{"replay", original("DPoP "+token, own), 401},
		{"no proof", original("DPoP " + token), 401},
		{"as a bearer token", original("Bearer " + token), 401},
		{"another key", original("DPoP "+token, sign(proof{token: token, key: otherKey(t)})), 401},
		{"another token", original("DPoP "+token, sign(proof{token: token + "x"})), 401},
	} {
		expectStatus(t, tc.name, tc.want, s.verify(t, "dpop=original", tc.header))
	}
}

// Requests share the content of a remembered token, and none changes it: the responses remain those of a server that
// remembers nothing. The race detector finds a change that they don't show.
func TestRememberedTokensAreReadOnly(t *testing.T) {
	s, forgetful := startDelegating(t), startDelegating(t, func(o *tokenserver.Options) { o.SignAndVerifyAlways = true })
	first := s.exchanged(t, "agent", issued(t, s, "service", ""), "audience", tools, "scope", "orders:read")
	token := s.exchanged(t, "tool", first)
	ask := map[string]func(*server) string{
		"verification": func(s *server) string {
			got := s.verify(t, "delegated=true&claims=act+scope+aud&scope=orders:read&audience="+orders, http.Header{"Authorization": {"Bearer " + token}})
			return fmt.Sprint(got)
		},
		"introspection": func(s *server) string {
			return s.send(t, s.direct(), request{path: introspectPath, body: "token=" + token, authorization: basic("gateway", secret)}).body
		},
		"exchange": func(s *server) string {
			claims := payload(t, s.exchanged(t, "tool", first))
			delete(claims, "jti")
			return fmt.Sprint(claims)
		},
	}
	want := map[string]string{}
	for name, f := range ask {
		want[name] = f(forgetful)
	}
	var running sync.WaitGroup
	for range 4 {
		for name, f := range ask {
			running.Go(func() {
				for range 20 {
					if got := f(s); got != want[name] {
						t.Errorf("%s: got %s, want %s", name, got, want[name])
					}
				}
			})
		}
	}
	running.Wait()
}
