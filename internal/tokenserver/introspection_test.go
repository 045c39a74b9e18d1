package tokenserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// inactive is the response for invalid tokens (RFC 7662 §2.2).
const inactive = `{"active":false}` + "\n"

// A client learns about its own tokens and about those for the audiences that it may introspect. For
// all others, it gets the same bytes as for an invalid token (RFC 7662 §4).
func TestIntrospectionIsLimitedToAudiences(t *testing.T) {
	s := startLoaded(t)
	s.registry.SetClient(newClient(t, "acme", "orders-api", func(c *registry.Client) { c.Introspects = []string{orders} }))
	s.registry.SetClient(newClient(t, "acme", "near-miss", func(c *registry.Client) { c.Introspects = []string{orders + "/", "https://orders", "*", ""} }))
	for name, tc := range map[string]struct {
		by, of, narrowed string
		want             bool
	}{
		"own token":                                {by: "plain", of: "plain", want: true},
		"own token for one audience":               {by: "orders-api", of: "orders-api", narrowed: "&audience=" + stock, want: true},
		"one of two audiences":                     {by: "orders-api", of: "billing", want: true},
		"token narrowed to another audience":       {by: "orders-api", of: "billing", narrowed: "&audience=" + stock},
		"no audiences, but the audience of tokens": {by: "plain", of: "billing", narrowed: "&audience=" + stock},
		"similar audiences":                        {by: "near-miss", of: "billing"},
	} {
		t.Run(name, func(t *testing.T) {
			introspect := func(token string) string {
				request := strings.Replace(raw("", "Authorization: "+basic(tc.by, secret)+"\r\nContent-Type: application/x-www-form-urlencoded\r\n", "token="+token), tokenPath+"?", introspectPath, 1)
				return date.ReplaceAllString(string(s.exchange(t, request)), "")
			}
			got, invalid := introspect(issued(t, s, tc.of, tc.narrowed)), introspect("x")
			if !strings.HasPrefix(invalid, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(invalid, inactive) {
				t.Fatalf("the response to an invalid token is %s", invalid)
			}
			if tc.want != strings.Contains(got, `{"active":true,`) || !tc.want && got != invalid {
				t.Errorf("got %s\nwant active: %t, or the bytes of %s", got, tc.want, invalid)
			}
		})
	}
}

// The introspection endpoint authenticates clients in the same way as the token endpoint (RFC 7662
// §2.1).
func TestIntrospectionRequiresAuthentication(t *testing.T) {
	s := startLoaded(t)
	token := "token=" + issued(t, s, "billing", "")
	for name, test := range map[string]struct {
		request    request
		wantStatus int // defaults to 200
		wantError  string
	}{
		"malformed token":            {request: request{body: "token=" + canary, authorization: good}},
		"the query of a token URL":   {request: request{query: grant, body: grant + "&token=" + canary, authorization: good}},
		"a wrong secret":             {request{body: token, authorization: basic("billing", "wrong")}, 401, "invalid_client"},
		"authenticated by the token": {request{body: token, authorization: "Bearer " + strings.TrimPrefix(token, "token=")}, 401, "invalid_client"},
		"no token":                   {request{body: "x=y", authorization: good}, 400, "invalid_request"},
		"the token in the query":     {request{query: token, authorization: good}, 400, "invalid_request"},
		"secret in the query":        {request{query: "client_secret=" + canary, body: token, authorization: good}, 400, "invalid_request"},
		"GET":                        {request{method: http.MethodGet, authorization: good}, 405, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.request
			if r.path == "" {
				r.path = introspectPath
			}
			got := s.send(t, s.direct(), r)
			if test.wantStatus != 0 {
				realm, _, _ := strings.Cut(r.path[1:], "/")
				checkRejection(t, got, test.wantStatus, test.wantError, realm)
				return
			}
			checkHeader(t, got, http.StatusOK, "")
			if strings.Contains(got.body, canary) {
				t.Errorf("body %q repeats input", got.body)
			}
		})
	}
}
