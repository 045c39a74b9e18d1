package tokenserver_test

import (
	"net/http"
	"strings"
	"testing"
)

// The authorization endpoint exists for client libraries only. It never redirects, and repeats no
// input.
func TestAuthorizationEndpointRejectsEverything(t *testing.T) {
	s := startLoaded(t)
	const path = "/acme/oauth2/authorize"
	var bodies []string
	for name, r := range map[string]request{
		"no parameters": {method: http.MethodGet},
		"code request":  {method: http.MethodGet, query: "response_type=code&client_id=billing&redirect_uri=https://" + canary + "/&state=" + canary},
		"prompt none":   {method: http.MethodGet, query: "response_type=code&prompt=none&redirect_uri=https://" + canary},
		"POST":          {method: http.MethodPost, body: "response_type=code&redirect_uri=https://" + canary},
		"credentials":   {method: http.MethodPost, body: grant, authorization: good},
		"other method":  {method: http.MethodDelete},
		"script":        {method: http.MethodGet, query: "state=%3Cscript%3E" + canary, header: http.Header{"Referer": {canary}, "Host": {canary}}},
	} {
		for protocol := range protocols {
			t.Run(name+" "+protocol, func(t *testing.T) {
				r.path = path
				got := s.send(t, s.clientOf(t, protocol), r)
				bodies = append(bodies, got.body)
				if got.status != http.StatusBadRequest || got.header.Get("Location") != "" || strings.Contains(got.body, canary) || got.body != bodies[0] {
					t.Errorf("got %d to %q: %s", got.status, got.header.Get("Location"), got.body)
				}
				for name, want := range map[string]string{
					"Content-Type": "text/html;charset=UTF-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
					"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Refresh": "", "Set-Cookie": "",
				} {
					if got.header.Get(name) != want {
						t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
					}
				}
			})
		}
	}
	if !strings.Contains(bodies[0], "unauthorized_client") {
		t.Errorf("the page doesn't contain the error code: %s", bodies[0])
	}
	checkRejection(t, s.send(t, s.direct(), request{path: "/unknown/oauth2/authorize"}), 404, "invalid_request", "")
	unloaded := start(t)
	checkRejection(t, unloaded.send(t, unloaded.direct(), request{path: path}), 503, "temporarily_unavailable", "")
}
