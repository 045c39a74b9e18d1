package tokenserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
				got := s.send(t, s.clientOf(t, protocol), request{path: introspectPath, body: "token=" + token + "&token_type_hint=access_token", authorization: good})
				checkHeader(t, got, http.StatusOK, "")
				var introspected map[string]any
				if err := json.Unmarshal([]byte(got.body), &introspected); err != nil {
					t.Fatalf("%s: %v", got.body, err)
				}
				if diff := cmp.Diff(want, introspected); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
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
			got := s.send(t, s.clientOf(t, "HTTP/1.1"), r)
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
