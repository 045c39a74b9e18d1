package tokenserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
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
