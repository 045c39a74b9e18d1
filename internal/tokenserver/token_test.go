package tokenserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

// canary is input that must not be repeated in responses or logs.
const canary = "canary-7d4e"

// good is the Authorization header of a client that has scopes and the realm's audiences.
var good = basic("billing", secret)

func TestTokenEndpoint(t *testing.T) {
	form := func(body string) request { return request{body: body, authorization: good} }
	query := func(query string) request { return request{query: query, authorization: good} }
	typed := func(contentType, body string) request {
		return request{query: grant, body: body, authorization: good, header: http.Header{"Content-Type": {contentType}}}
	}
	tests := map[string]struct {
		request    request
		wantStatus int    // defaults to 200
		wantError  string // the error code
		wantScope  string
		wantAud    any
	}{
		// Successful requests.
		"parameters in the query":         {request: query(grant), wantScope: "orders:read orders:write stock"},
		"grant_type in both":              {request: request{query: grant, body: grant, authorization: good}, wantScope: "orders:read orders:write stock"},
		"an audience in both":             {request: request{query: grant + "&audience=" + orders, body: "scope=stock&audience=" + orders, authorization: good}, wantScope: "stock", wantAud: orders},
		"an audience":                     {request: query(grant + "&scope=stock&audience=" + orders), wantScope: "stock", wantAud: orders},
		"a content type with a parameter": {request: typed("application/x-www-form-urlencoded; charset=UTF-8", "scope=stock"), wantScope: "stock"},
		"an empty body of another type":   {request: request{query: grant, authorization: good, header: http.Header{"Content-Type": {"application/json"}}}, wantScope: "orders:read orders:write stock"},
		"X-Forwarded-Host is ignored":     {request: request{query: grant, authorization: good, header: http.Header{"X-Forwarded-Host": {canary}, "X-Forwarded-Proto": {"http"}}}, wantScope: "orders:read orders:write stock"},

		"the same credentials in both": {request: form(grant + "&client_id=billing&client_secret=" + secret), wantScope: "orders:read orders:write stock"},
		"the same secret in both":      {request: form(grant + "&client_secret=" + secret), wantScope: "orders:read orders:write stock"},
		"a list of audiences":          {request: query(grant + "&scope=stock&audience=" + orders + "+" + stock), wantScope: "stock"},
		"an equivalent resource":       {request: query(grant + "&scope=stock&resource=HTTPS://Orders.Example.com:443/"), wantScope: "stock", wantAud: orders},

		// Credentials.
		"another scheme, valid body":       {request: request{query: grant, authorization: "Bearer x", body: "client_id=plain&client_secret=" + secret}, wantStatus: 401, wantError: "invalid_client"},
		"a client ID without a secret":     {request: request{body: grant + "&client_id=billing"}, wantStatus: 401, wantError: "invalid_client"},
		"an assertion of another type":     {request: request{body: grant + "&client_assertion=" + canary + "&client_assertion_type=x"}, wantStatus: 400, wantError: "invalid_request"},
		"an assertion without a type":      {request: request{body: grant + "&client_assertion=" + canary}, wantStatus: 400, wantError: "invalid_request"},
		"two Authorization headers":        {request: request{query: grant, header: http.Header{"Authorization": {good, good}}}, wantStatus: 400, wantError: "invalid_request"},
		"broken Basic, secret in the body": {request: request{query: grant, authorization: "Basic !", body: "client_id=plain&client_secret=" + secret}, wantStatus: 400, wantError: "invalid_request"},
		"a secret and an assertion":        {request: request{body: grant + "&client_id=plain&client_secret=" + secret + "&client_assertion=x"}, wantStatus: 400, wantError: "invalid_request"},
		"Basic and another secret":         {request: form(grant + "&client_id=billing&client_secret=" + canary), wantStatus: 400, wantError: "invalid_request"},
		"Basic and another ID":             {request: form(grant + "&client_id=plain&client_secret=" + secret), wantStatus: 400, wantError: "invalid_request"},
		"Basic and an assertion":           {request: form(grant + "&client_assertion=x"), wantStatus: 400, wantError: "invalid_request"},
		"different client_id":              {request: form(grant + "&client_id=plain"), wantStatus: 400, wantError: "invalid_request"},

		// Credentials in the query are rejected, even with valid Basic credentials.
		"client_secret in the query": {request: query(grant + "&client_secret=" + canary), wantStatus: 400, wantError: "invalid_request"},

		// Parameters.
		"grant_type missing":             {request: query("scope=stock"), wantStatus: 400, wantError: "invalid_request"},
		"another grant_type":             {request: query("grant_type=password"), wantStatus: 400, wantError: "unsupported_grant_type"},
		"different grant_type":           {request: request{query: grant, body: "grant_type=" + canary, authorization: good}, wantStatus: 400, wantError: "invalid_request"},
		"different scope":                {request: request{query: grant + "&scope=" + canary, body: "scope=stock", authorization: good}, wantStatus: 400, wantError: "invalid_request"},
		"an invalid escape in the query": {request: query(grant + "&scope=%zz" + canary), wantStatus: 400, wantError: "invalid_request"},

		// Scope and audience.
		"scope not granted":    {request: request{query: grant + "&scope=stock", authorization: basic("plain", secret)}, wantStatus: 400, wantError: "invalid_scope"},
		"audience not granted": {request: query(grant + "&audience=billing"), wantStatus: 400, wantError: "invalid_target"},
		"one not granted":      {request: query(grant + "&audience=" + orders + "+billing"), wantStatus: 400, wantError: "invalid_target"},
		"no audience":          {request: query(grant + "&audience=+"), wantStatus: 400, wantError: "invalid_target"},

		// Checks of the realm, method and content type.
		"unknown realm": {request: request{path: "/" + canary + "/oauth2/token", query: grant, authorization: good}, wantStatus: 404, wantError: "invalid_request"},
		"GET":           {request: request{method: "GET", query: grant, authorization: good}, wantStatus: 405, wantError: "invalid_request"},
		"JSON":          {request: typed("application/json", `{"grant_type":"client_credentials"}`), wantStatus: 400, wantError: "invalid_request"},
	}
	s := startLoaded(t)
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			client := s.clientOf(t, protocol)
			for name, tc := range tests {
				t.Run(name, func(t *testing.T) {
					got := s.send(t, client, tc.request)
					if tc.wantError == "" {
						checkToken(t, got, tc.wantScope, tc.wantAud)
						return
					}
					realm, _, _ := strings.Cut(strings.TrimPrefix(tc.request.path, "/"), "/")
					checkRejection(t, got, tc.wantStatus, tc.wantError, realm)
				})
			}
		})
	}
}

// If a request fails several checks, the first one determines the response.
func TestTokenEndpointChecksInOrder(t *testing.T) {
	large := strings.Repeat("x", 9<<10)
	tests := map[string]struct {
		request    request
		wantStatus int
		wantError  string
	}{
		"method before realm":        {request{method: "GET", path: "/unknown/oauth2/token"}, 405, "invalid_request"},
		"realm before size":          {request{path: "/unknown/oauth2/token", body: large}, 404, "invalid_request"},
		"size before parsing":        {request{query: "%zz", body: large}, 413, "invalid_request"},
		"parsing before credentials": {request{query: "%zz", header: http.Header{"Authorization": {"a", "b"}}}, 400, "invalid_request"},
		"credentials before grant":   {request{query: "grant_type=password", authorization: basic("billing", "wrong")}, 401, "invalid_client"},
		"grant before scope":         {request{query: "grant_type=password&scope=admin", authorization: good}, 400, "unsupported_grant_type"},
		"scope before audience":      {request{query: grant + "&scope=admin&audience=x", authorization: good}, 400, "invalid_scope"},
	}
	s := startLoaded(t)
	client := s.direct()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			checkRejection(t, s.send(t, client, tc.request), tc.wantStatus, tc.wantError, "acme")
		})
	}
}

func TestUnavailableUntilLoaded(t *testing.T) {
	tests := map[string]request{
		"good credentials": {query: grant, authorization: good},
		"unknown realm":    {path: "/unknown/oauth2/token", query: grant, authorization: good},
		"JWKS":             {method: "GET", path: "/acme/oauth2/jwks"},
		"metadata":         {method: "GET", path: "/.well-known/oauth-authorization-server/acme"},
	}
	s := start(t)
	client := s.direct()
	for name, r := range tests {
		t.Run(name, func(t *testing.T) {
			checkRejection(t, s.send(t, client, r), 503, "temporarily_unavailable", "")
		})
	}
	if got := verified(t, s, "x"); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("verification: got status %d with Retry-After %q, want 503 with any", got.status, got.header.Get("Retry-After"))
	}
	s.registry.Replace(nil, nil, nil, nil, func(string) bool { return false })
	checkRejection(t, s.send(t, client, tests["good credentials"]), 404, "invalid_request", "")
}

// checkRejection checks the status, headers and body of an error response.
func checkRejection(t *testing.T, got response, wantStatus int, wantError, realm string) {
	t.Helper()
	if realm == "" {
		realm = "acme"
	}
	expectStatus(t, "response", wantStatus, got)
	checkHeader(t, got, wantStatus, realm)
	var body map[string]string
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatalf("body %q: %v", got.body, err)
	}
	if body["error"] != wantError || body["error_description"] == "" || len(body) != 2 {
		t.Errorf("got body %q, want error %q with a description", got.body, wantError)
	}
	// RFC 6749 §5.2 allows only %x20-21 / %x23-5B / %x5D-7E.
	forbidden := func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' || r > 0x7e }
	if strings.ContainsFunc(body["error"]+body["error_description"], forbidden) {
		t.Errorf("body %q contains characters that RFC 6749 does not allow", got.body)
	}
	if strings.Contains(got.body, canary) || strings.Contains(got.body, secret) {
		t.Errorf("body %q repeats input", got.body)
	}
}

func checkHeader(t *testing.T, got response, wantStatus int, realm string) {
	t.Helper()
	want := map[string][]string{
		"Content-Type": {"application/json;charset=UTF-8"}, "Cache-Control": {"no-store"}, "Pragma": {"no-cache"},
		"WWW-Authenticate": nil, "Allow": nil, "Retry-After": nil, "Location": nil, "Server": nil,
	}
	switch wantStatus {
	case http.StatusUnauthorized:
		want["WWW-Authenticate"] = []string{`Basic realm="` + realm + `", charset="UTF-8"`}
	case http.StatusMethodNotAllowed:
		want["Allow"] = []string{"POST"}
	case http.StatusServiceUnavailable:
		want["Retry-After"] = []string{"1"}
	}
	header := map[string][]string{}
	for name := range want {
		header[name] = got.header.Values(name)
	}
	testkit.Diff(t, "headers", want, header)
}
