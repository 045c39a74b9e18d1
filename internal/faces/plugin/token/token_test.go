package token_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

const clientSecret = "rk_canary"

var (
	accessToken = strings.Join([]string{
		encode(`{"alg":"ES256","kid":"key-1","typ":"at+jwt"}`),
		encode(`{"iss":"https://api.example.com/acme","sub":"acme-apps.billing","aud":["a","b"],"iat":1767323045,"exp":1767323345,"jti":"x"}`),
		encode("signature"),
	}, ".")
	tokenResponse = response{http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_in":300,"scope":"read write"}`, accessToken)}
	unauthorized  = response{http.StatusUnauthorized, `{"error":"invalid_client","error_description":"Client authentication failed."}`}
)

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// response is a response of a token endpoint.
type response struct {
	status int
	body   string
}

// endpoint starts a token endpoint for the client billing. The endpoint returns the given responses
// in order and repeats the last one.
func endpoint(t *testing.T, responses ...response) *httptest.Server {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || r.FormValue("grant_type") != "client_credentials" || id != "billing" || secret != clientSecret {
			t.Errorf("%s %s by client %q is not the expected token request", r.Method, r.URL, id)
		}
		next := responses[min(int(requests.Add(1)), len(responses))-1]
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		w.WriteHeader(next.status)
		fmt.Fprint(w, next.body)
	}))
	t.Cleanup(server.Close)
	return server
}

// mounted writes a credentials Secret to a directory as a Pod mounts it. changes replaces the
// content of files; a file with empty content is not written.
func mounted(t *testing.T, server *httptest.Server, changes map[string]string) string {
	t.Helper()
	files := map[string]string{
		"client_id": "billing", "client_secret": clientSecret,
		"token_url": "https://outside.invalid/acme/oauth2/token", "cluster_token_url": server.URL + "/acme/oauth2/token",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	}
	dir := t.TempDir()
	for name, content := range files {
		if changed, ok := changes[name]; ok {
			content = changed
		}
		if content != "" {
			write(t, filepath.Join(dir, name), content)
		}
	}
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	testkit.Do(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestTokenPrintsClaims(t *testing.T) {
	server := endpoint(t, tokenResponse)
	code, stdout, stderr := plugintest.Run(t, "token", "--from-directory", mounted(t, server, nil))
	if code != 0 || stderr != "" {
		t.Fatalf("Exit code %d, %q", code, stderr)
	}
	want := `endpoint:    ` + server.URL + `/acme/oauth2/token
token_type:  bearer
expires_in:  300
scope:       read write
header:
  alg:  "ES256"
  kid:  "key-1"
claims:
  aud:  ["a","b"]
  exp:  1767323345  # 2026-01-02T03:09:05Z
  iat:  1767323045  # 2026-01-02T03:04:05Z
  iss:  "https://api.example.com/acme"
  jti:  "x"
  sub:  "acme-apps.billing"
`
	testkit.Diff(t, "result", want, stdout)
	if strings.Contains(stdout, clientSecret) || strings.Contains(stdout, encode("signature")) {
		t.Error("The output contains the client secret or the token")
	}
}

func TestTokenRequestsPartOfGrant(t *testing.T) {
	var got url.Values
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testkit.Do(t, r.ParseForm())
		got = r.Form
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, tokenResponse.body)
	}))
	t.Cleanup(server.Close)
	code, _, stderr := plugintest.Run(t, "token", "--from-directory", mounted(t, server, nil), "--scope", "read  write", "--audience", "https://a.example  https://b.example")
	if code != 0 {
		t.Fatalf("Exit code %d, %q", code, stderr)
	}
	want := url.Values{"grant_type": {"client_credentials"}, "scope": {"read write"}, "audience": {"https://a.example https://b.example"}}
	testkit.Diff(t, "request", want, got)
}

func TestTokenErrors(t *testing.T) {
	good := endpoint(t, tokenResponse)
	closed := endpoint(t, tokenResponse)
	closed.Close()
	returning := func(r response) string { return mounted(t, endpoint(t, r), nil) }
	redirecting := httptest.NewTLSServer(http.RedirectHandler(good.URL+"/acme/oauth2/token", http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	tests := map[string]struct {
		args []string
		want string
	}{
		"no name or directory":    {nil, "--from-directory"},
		"no name after the kind":  {[]string{"apiclient/"}, "--from-directory"},
		"missing kubeconfig":      {[]string{"billing", "--kubeconfig", filepath.Join(t.TempDir(), "none")}, "kubeconfig"},
		"missing token endpoint":  {[]string{"--from-directory", mounted(t, good, map[string]string{"cluster_token_url": ""})}, "cluster_token_url"},
		"external token endpoint": {[]string{"--from-directory", mounted(t, good, nil), "--cluster-url=false"}, "outside.invalid"},
		"untrusted authority": {
			[]string{"--from-directory", mounted(t, good, map[string]string{"ca.crt": ""})}, "certificate",
		},
		"invalid client":           {[]string{"--from-directory", returning(unauthorized)}, "401 Unauthorized invalid_client: Client authentication failed."},
		"error from a proxy":       {[]string{"--from-directory", returning(response{http.StatusBadGateway, "<html>\n"})}, "502 Bad Gateway"},
		"redirect":                 {[]string{"--from-directory", mounted(t, good, map[string]string{"cluster_token_url": redirecting.URL})}, "307 Temporary Redirect"},
		"response without a token": {[]string{"--from-directory", returning(response{http.StatusOK, "{}"})}, "access_token"},
		"token is not a JWT":       {[]string{"--from-directory", returning(response{http.StatusOK, `{"access_token":"opaque"}`})}, "JWT"},
		// These errors aren't retried.
		"invalid scope with --wait": {[]string{"--from-directory", returning(response{http.StatusBadRequest, `{"error":"invalid_scope"}`}), "--wait", "1h"}, "invalid_scope"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := plugintest.Run(t, append([]string{"token"}, test.args...)...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
				t.Errorf("Exit code %d, stdout %q, stderr %q; want 1 and one line with %q", code, stdout, stderr, test.want)
			}
			if strings.Contains(stderr, clientSecret) {
				t.Error("The error contains the client secret")
			}
		})
	}
}

// The plugin asks again until the client is loaded, until the files exist, or until the timeout.
func TestTokenRetries(t *testing.T) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, first := range []response{
		unauthorized,
		{http.StatusNotFound, `{"error":"invalid_request"}`},
		{http.StatusTooManyRequests, `{"error":"temporarily_unavailable"}`},
		{http.StatusServiceUnavailable, `{"error":"temporarily_unavailable"}`},
	} {
		dir := mounted(t, endpoint(t, first, tokenResponse), nil)
		running.Go(func() { wantToken(t, dir) })
	}
	complete, later := mounted(t, endpoint(t, tokenResponse), nil), filepath.Join(t.TempDir(), "later")
	running.Go(func() { wantToken(t, later) })
	running.Go(func() {
		if err := os.Rename(complete, later); err != nil {
			t.Error(err)
		}
	})
	code, _, stderr := plugintest.Run(t, "token", "--wait", "600ms", "--from-directory", mounted(t, endpoint(t, unauthorized), nil))
	if code != 1 || !strings.Contains(stderr, "invalid_client") {
		t.Errorf("Exit code %d, %q", code, stderr)
	}
}

// wantToken fails the test unless the plugin gets a token within the timeout of --wait.
func wantToken(t *testing.T, dir string) {
	t.Helper()
	if code, stdout, stderr := plugintest.Run(t, "token", "-o", "token", "--wait", "1m", "--from-directory", dir); code != 0 || stdout != accessToken+"\n" {
		t.Errorf("Exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
