package tokenserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// inactive is the response for invalid tokens (RFC 7662 §2.2).
const inactive = `{"active":false}` + "\n"

func TestIntrospectionReturnsTheClaims(t *testing.T) {
	s := startLoaded(t)
	for name, client := range map[string]string{"scopes": "billing", "no scopes": "plain"} {
		t.Run(name, func(t *testing.T) {
			token := issued(t, s, client, "")
			want := payload(t, token)
			want["active"], want["token_type"] = true, "bearer"
			for protocol := range protocols {
				got := s.send(t, s.clientOf(t, protocol), request{path: introspectPath, body: "token=" + token + "&token_type_hint=access_token", authorization: basic("gateway", secret)})
				checkHeader(t, got, http.StatusOK, "")
				var introspected map[string]any
				if err := json.Unmarshal([]byte(got.body), &introspected); err != nil {
					t.Fatalf("%s: %v", got.body, err)
				}
				testkit.Diff(t, "result", want, introspected)
			}
		})
	}
}

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
		"the only audience":                        {by: "orders-api", of: "billing", narrowed: "&audience=" + orders, want: true},
		"token for another audience":               {by: "orders-api", of: "plain"},
		"token narrowed to another audience":       {by: "orders-api", of: "billing", narrowed: "&audience=" + stock},
		"no audiences to introspect":               {by: "billing", of: "plain"},
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
		"client_secret_post":         {request: request{body: token + "&client_id=plain&client_secret=" + secret}},
		"malformed token":            {request: request{body: "token=" + canary, authorization: good}},
		"no credentials":             {request{body: token}, 401, "invalid_client"},
		"a wrong secret":             {request{body: token, authorization: basic("billing", "wrong")}, 401, "invalid_client"},
		"a suspended client":         {request{body: token, authorization: basic("suspended", secret)}, 401, "invalid_client"},
		"a client of another realm":  {request{path: "/frozen/oauth2/introspect", body: token, authorization: good}, 401, "invalid_client"},
		"authenticated by the token": {request{body: token, authorization: "Bearer " + strings.TrimPrefix(token, "token=")}, 401, "invalid_client"},
		"no token":                   {request{body: "x=y", authorization: good}, 400, "invalid_request"},
		"an empty token":             {request{body: "token=", authorization: good}, 400, "invalid_request"},
		"the token in the query":     {request{query: token, authorization: good}, 400, "invalid_request"},
		"two tokens":                 {request{body: token + "&" + token, authorization: good}, 400, "invalid_request"},
		"secret in the query":        {request{query: "client_secret=" + canary, body: token, authorization: good}, 400, "invalid_request"},
		"unknown realm":              {request{path: "/unknown/oauth2/introspect", body: token, authorization: good}, 404, "invalid_request"},
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
