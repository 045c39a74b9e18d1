package tokenserver_test

import (
	"encoding/json"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Each limit is exact to the byte.
func TestRequestSizeLimits(t *testing.T) {
	// padded pads the form with an unused parameter to n bytes.
	padded := func(form string, n int) string { return form + "&x=" + strings.Repeat("x", n-len(form)-len("&x=")) }
	many := func(n int) string { return grant + strings.Repeat("&x=1", n-1) }
	tests := map[string]struct {
		request    request
		wantStatus int
	}{
		"a body of 8 KiB":        {request{body: padded(grant, 8<<10), authorization: good}, 200},
		"one byte more":          {request{body: padded(grant, 8<<10+1), authorization: good}, 413},
		"8 KiB, chunked":         {request{body: padded(grant, 8<<10), authorization: good, chunked: true}, 200},
		"one byte more, chunked": {request{body: padded(grant, 8<<10+1), authorization: good, chunked: true}, 413},
		"32 in query and body":   {request{query: many(16), body: strings.Repeat("&x=1", 16), authorization: good}, 200},
		"33 in query and body":   {request{query: many(16), body: strings.Repeat("&x=1", 17), authorization: good}, 400},
		"headers of 15 KiB":      {request{query: grant, authorization: good, header: http.Header{"X-Padding": {strings.Repeat("x", 15<<10)}}}, 200},
		"headers over 16 KiB":    {request{query: grant, authorization: good, header: http.Header{"X-Padding": {strings.Repeat("x", 16<<10)}}}, 431},
		"many headers":           {request{query: grant, authorization: good, header: http.Header{"X": slices.Repeat([]string{strings.Repeat("x", 200)}, 81)}}, 431},
	}
	s := startLoaded(t)
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			client := s.clientOf(t, protocol)
			for name, tc := range tests {
				t.Run(name, func(t *testing.T) {
					got := s.send(t, client, tc.request)
					if tc.wantStatus == 200 {
						checkToken(t, got, "orders:read orders:write stock", nil)
						return
					}
					checkRejection(t, got, tc.wantStatus, "invalid_request", "acme")
				})
			}
		})
	}
}

// TestAcceptedTokensReturn checks that the operator's limit is the one that matters: a token with everything that
// the operator accepts in a client is issued, and every endpoint takes it back.
func TestAcceptedTokensReturn(t *testing.T) {
	s := startLoaded(t)
	client, largest := s.clientOf(t, "HTTP/1.1"), 0
	random := mathrand.New(mathrand.NewPCG(1, 2))
	text := func(n int, characters string) string {
		b := make([]byte, 1+random.IntN(n))
		for i := range b {
			b[i] = characters[random.IntN(len(characters))]
		}
		return string(b)
	}
	many := func(n int, value func() string) []string {
		all := map[string]bool{}
		for range random.IntN(n) {
			all[value()] = true
		}
		return slices.Sorted(maps.Keys(all))
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	for accepted := 0; accepted < 40; {
		settled := record.Client{
			ClientID:  "client-" + text(200, letters+`"\<&`),
			Scopes:    many(60, func() string { return text(128, letters+"!#$&'<>[]~:") }),
			Audiences: append(many(16, func() string { return "https://" + text(200, letters+"&=%-") }), "https://one.example"),
			Claims:    []record.Claim{{Name: "text", Value: testkit.Value(json.Marshal(text(1000, letters+"<>&\"ä")))(t)}},
		}
		if record.LargestToken("https://"+host+"/largest", &settled) > oauth.MaxTokenBytes {
			continue
		}
		accepted++
		s.registry.SetRealm(newRealm(t, "largest", func(r *registry.RealmSettings) {
			r.Keys, r.Scopes, r.StatusLists = []signingkey.Key{keyIn(signingkey.Active, signingkey.RS256)}, settled.Scopes, lists()
		}))
		s.registry.SetClient(newClient(t, "largest", settled.ClientID, func(c *registry.Client) {
			c.Scopes, c.Audiences, c.Introspects, c.Claims = settled.Scopes, settled.Audiences, nil, record.EncodeClaims(settled.Claims)
			c.StatusIndex = &record.StatusIndex{Index: 1<<20 - 1}
		}))
		authorization := basic(url.QueryEscape(settled.ClientID), secret)
		issued := accessToken(t, s.send(t, client, request{path: "/largest/oauth2/token", query: grant, authorization: authorization}))
		largest = max(largest, len(issued))
		got := s.send(t, client, request{path: "/largest/oauth2/introspect", body: "token_type_hint=access_token&token=" + issued, authorization: authorization})
		if got.status != 200 || !strings.HasPrefix(got.body, `{"active":true`) {
			t.Errorf("introspection of a token with %d bytes: %d %.80s", len(issued), got.status, got.body)
		}
		expectStatus(t, "verification", 200, s.send(t, client, request{method: "GET", path: "/largest/oauth2/verify", authorization: "Bearer " + issued}))
	}
	if largest < oauth.MaxTokenBytes*3/4 {
		t.Errorf("the largest token has %d bytes, so the limit was not tested", largest)
	}
}

// A token that no endpoint would accept isn't issued. The client can ask for fewer scopes.
func TestLargerTokensAreNotIssued(t *testing.T) {
	s := startLoaded(t)
	s.registry.SetClient(newClient(t, "acme", "large", func(c *registry.Client) {
		for i := range 120 {
			c.Scopes = append(c.Scopes, strings.Repeat("x", 60)+strconv.Itoa(100+i))
		}
	}))
	client := s.direct()
	got := s.send(t, client, request{query: grant, authorization: basic("large", secret)})
	checkRejection(t, got, 400, "invalid_scope", "acme")
	if !strings.Contains(got.body, "larger than 6 KiB") {
		t.Errorf("got %s", got.body)
	}
	one := strings.Repeat("x", 60) + "100"
	checkToken(t, s.send(t, client, request{query: grant + "&scope=" + one, authorization: basic("large", secret)}), one, nil)
}

// The limit applies to the size of the request line and the headers in HTTP/1.1, without Host.
func TestHeaderLimitIsExact(t *testing.T) {
	s := startLoaded(t)
	// raw adds these headers to each request.
	const others = len("POST " + tokenPath + "?" + grant + " HTTP/1.1\r\n" + "Connection: close\r\n" + "Content-Length: 0\r\n")
	for size, want := range map[int]int{16 << 10: 200, 16<<10 + 1: 431} {
		headers := "Authorization: " + good + "\r\nX-Padding: "
		headers += strings.Repeat("x", size-others-len(headers)-len("\r\n")) + "\r\n"
		got := responses(t, s.exchange(t, raw(grant, headers, "")))
		if len(got) != 1 || got[0].status != want {
			t.Errorf("headers of %d bytes: got %+v, want one response with status %d", size, got, want)
		}
	}
}

// Unknown paths must not redirect, because a redirect would repeat the query.
func TestUnknownPathsAreNotFound(t *testing.T) {
	paths := []string{
		"/", "/acme", "/acme/", "/acme/oauth2", "/acme/oauth2/token/", "/acme/oauth2/token/x", "/acme/oauth2/nothing",
		"//acme/oauth2/token", "/acme//oauth2/token", "/acme/./oauth2/token", "/acme/x/../oauth2/token", "/acme/oauth2/token/.",
		"/acme%2foauth2/token", "/acme%2f..%2facme/oauth2/token", "/x/acme/oauth2/token", "/oauth2/token", "/acme/OAuth2/Token",
		"/healthz", "/readyz", "/metrics", "/debug/pprof/", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration/acme",
	}
	s := startLoaded(t)
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			client := s.clientOf(t, protocol)
			for _, path := range paths {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					t.Run(method+" "+path, func(t *testing.T) {
						got := s.send(t, client, request{method: method, path: path, query: grant + "&client_secret=" + canary, authorization: good})
						checkRejection(t, got, 404, "invalid_request", "acme")
					})
				}
			}
		})
	}
}
