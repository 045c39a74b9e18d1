package tokenserver_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// otherOrigin are the headers of a request from a script on a page of another origin, with a header that
// clients of the Model Context Protocol send.
var otherOrigin = http.Header{"Origin": {"https://explorer.example.com"}, "Mcp-Protocol-Version": {"2025-11-25"}}

// forScripts returns the headers that tell a browser what a script of another origin may do.
func forScripts(header http.Header) map[string]string {
	some := map[string]string{}
	for name := range maps.Keys(header) {
		if strings.HasPrefix(name, "Access-Control-") {
			some[name] = header.Get(name)
		}
	}
	return some
}

// preflight is the request with which a browser asks whether a script may send its request.
func preflight(path string) request {
	return request{method: http.MethodOptions, path: path, header: http.Header{
		"Origin": otherOrigin["Origin"], "Access-Control-Request-Method": {"GET"}, "Access-Control-Request-Headers": {"mcp-protocol-version"},
	}}
}

// Scripts of every origin can read public documents, and why there is none. The answer to the preflight
// doesn't depend on whether there is one.
func TestScriptsReadPublicDocuments(t *testing.T) {
	s, _ := startWithLists(t)
	s.setListing(t, lists(), func(r *registry.RealmSettings) { r.Audiences = []string{orders} })
	tests := map[string]struct {
		path string
		want int
	}{
		"metadata":                      {"/.well-known/oauth-authorization-server/acme", 200},
		"metadata below the realm":      {"/acme/.well-known/oauth-authorization-server", 200},
		"OpenID configuration":          {"/acme/.well-known/openid-configuration", 200},
		"keys":                          {"/acme/oauth2/jwks", 200},
		"keys at the well-known path":   {"/acme/.well-known/jwks.json", 200},
		"keys of status lists":          {"/acme/oauth2/status/jwks", 200},
		"keys of a suspended realm":     {"/frozen/oauth2/jwks", 200},
		"keys of an unknown realm":      {"/unknown/oauth2/jwks", 404},
		"resource metadata":             {"/acme/oauth2/resource-metadata/aHR0cHM6Ly9vcmRlcnMuZXhhbXBsZS5jb20", 200},
		"unknown resource metadata":     {"/acme/oauth2/resource-metadata/aHR0cHM6Ly9vdGhlci5leGFtcGxlLmNvbQ", 404},
		"status list":                   {currentList, 200},
		"ended status list":             {"/acme/oauth2/status/5", 200},
		"unknown status list":           {"/acme/oauth2/status/6", 404},
		"status list at another time":   {currentList + "?time=1", 501},
		"metadata of an unknown realm":  {"/.well-known/oauth-authorization-server/unknown", 404},
		"status list of unknown realm":  {"/unknown/oauth2/status/7", 404},
		"OpenID configuration, unknown": {"/unknown/.well-known/openid-configuration", 404},
	}
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			client := s.clientOf(t, protocol)
			for name, tc := range tests {
				t.Run(name, func(t *testing.T) {
					for _, method := range []string{http.MethodGet, http.MethodHead} {
						got := s.send(t, client, request{method: method, path: tc.path, header: otherOrigin})
						expectStatus(t, method, tc.want, got)
						testkit.Diff(t, method, map[string]string{"Access-Control-Allow-Origin": "*"}, forScripts(got.header))
					}
					got := s.send(t, client, preflight(tc.path))
					expectStatus(t, "preflight", http.StatusNoContent, got)
					testkit.Diff(t, "preflight", map[string]string{
						"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*", "Access-Control-Max-Age": "7200",
					}, forScripts(got.header))
					testkit.Diff(t, "Allow", "GET, HEAD, OPTIONS", got.header.Get("Allow"))
				})
			}
		})
	}
}

// A script can also read that a list hasn't changed, and that the server is starting.
func TestScriptsReadOtherResponses(t *testing.T) {
	s, _ := startWithLists(t)
	header := otherOrigin.Clone()
	header.Set("If-None-Match", s.send(t, s.direct(), request{method: "GET", path: currentList}).header.Get("ETag"))
	unchanged := s.send(t, s.direct(), request{method: "GET", path: currentList, header: header})
	expectStatus(t, "unchanged list", http.StatusNotModified, unchanged)
	starting := start(t)
	unloaded := starting.send(t, starting.direct(), request{method: "GET", path: "/acme/oauth2/jwks", header: otherOrigin})
	expectStatus(t, "starting server", http.StatusServiceUnavailable, unloaded)
	for _, got := range []response{unchanged, unloaded} {
		testkit.Diff(t, "headers", map[string]string{"Access-Control-Allow-Origin": "*"}, forScripts(got.header))
	}
}

// A script of another origin can't read what a client or a gateway gets, and may not send its credentials.
func TestScriptsReadNothingElse(t *testing.T) {
	s, _ := startWithLists(t)
	token := issued(t, s, "billing", "")
	tests := map[string]struct {
		request       request
		want          int
		wantPreflight int
	}{
		"token":            {request{query: grant, authorization: good}, 200, 405},
		"rejected token":   {request{query: grant, authorization: basic("billing", "wrong")}, 401, 405},
		"introspection":    {request{path: "/acme/oauth2/introspect", body: "token=" + token, authorization: good}, 200, 405},
		"verification":     {request{path: "/acme/oauth2/verify", authorization: "Bearer " + token}, 200, 401},
		"requirements":     {request{path: "/acme/oauth2/verify/require/c2NvcGU9c3RvY2s", authorization: "Bearer " + token}, 200, 401},
		"authorization":    {request{method: "GET", path: "/acme/oauth2/authorize"}, 400, 400},
		"unknown endpoint": {request{method: "GET", path: "/acme/oauth2/unknown"}, 404, 404},
		"unclean path":     {request{method: "GET", path: "/acme/oauth2//jwks"}, 404, 404},
		"POST to the keys": {request{path: "/acme/oauth2/jwks"}, 404, 204},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.request.header = otherOrigin.Clone()
			got := s.send(t, s.direct(), tc.request)
			expectStatus(t, "response", tc.want, got)
			testkit.Diff(t, "headers", map[string]string{}, forScripts(got.header))
			asked := s.send(t, s.direct(), preflight(tc.request.path))
			expectStatus(t, "preflight", tc.wantPreflight, asked)
			if names := slices.Collect(maps.Keys(forScripts(asked.header))); tc.wantPreflight != http.StatusNoContent && len(names) > 0 {
				t.Errorf("the preflight is answered with %q", names)
			}
		})
	}
}
