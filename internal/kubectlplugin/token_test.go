package kubectlplugin_test

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/realmkeeper/realmkeeper/internal/kubectlplugin"
)

const clientSecret = "rk_canary"

var (
	accessToken = strings.Join([]string{
		encode(`{"alg":"ES256","kid":"key-1","typ":"at+jwt"}`),
		encode(`{"iss":"https://api.example.com/acme","sub":"acme-apps.billing","aud":["a","b"],"iat":1767323045,"exp":1767323345,"jti":"x"}`),
		encode("signature"),
	}, ".")
	granted = answer{http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_in":300,"scope":"read write"}`, accessToken)}
	refused = answer{http.StatusUnauthorized, `{"error":"invalid_client","error_description":"Client authentication failed."}`}
)

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// answer is one of a token endpoint.
type answer struct {
	status int
	body   string
}

// endpoint is a token endpoint that gives these answers, one after the other and the last
// for ever, to who authenticates as billing.
func endpoint(t *testing.T, answers ...answer) *httptest.Server {
	t.Helper()
	var asked atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || r.FormValue("grant_type") != "client_credentials" || id != "billing" || secret != clientSecret {
			t.Errorf("%s %s by %q is no token request of the client's", r.Method, r.URL, id)
		}
		now := answers[min(int(asked.Add(1)), len(answers))-1]
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		w.WriteHeader(now.status)
		fmt.Fprint(w, now.body)
	}))
	t.Cleanup(server.Close)
	return server
}

// mounted is a consumer Secret as it is mounted in a pod, with some of its files changed;
// one that is changed to nothing isn't there.
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
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs the plugin in this process.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = kubectlplugin.Run(t.Context(), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut}, args)
	return code, out.String(), errOut.String()
}

func TestTokenFacts(t *testing.T) {
	server := endpoint(t, granted)
	code, stdout, stderr := run(t, "token", "--from-directory", mounted(t, server, nil))
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %q", code, stderr)
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
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(stdout, clientSecret) || strings.Contains(stdout, encode("signature")) {
		t.Error("the facts show the secret or the token")
	}
}

func TestTokenAlone(t *testing.T) {
	code, stdout, stderr := run(t, "token", "--from-directory", mounted(t, endpoint(t, granted), nil), "-o", "token")
	if code != 0 || stderr != "" || stdout != accessToken+"\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestTokenFailsInOneLine(t *testing.T) {
	good := endpoint(t, granted)
	gone := endpoint(t, granted)
	gone.Close()
	at := func(a answer) string { return mounted(t, endpoint(t, a), nil) }
	tests := map[string]struct {
		args []string
		want string
	}{
		"nothing to read from":    {nil, "--from-directory"},
		"two things to read from": {[]string{"billing", "--from-directory", "."}, "billing"},
		"two names":               {[]string{"billing", "orders"}, "orders"},
		"another output":          {[]string{"billing", "-o", "yaml"}, "yaml"},
		"no such kubeconfig":      {[]string{"billing", "--kubeconfig", filepath.Join(t.TempDir(), "none")}, "kubeconfig"},
		"no such directory":       {[]string{"--from-directory", filepath.Join(t.TempDir(), "none")}, "client_id"},
		"no client secret":        {[]string{"--from-directory", mounted(t, good, map[string]string{"client_secret": ""})}, "client_secret"},
		"no endpoint":             {[]string{"--from-directory", mounted(t, good, map[string]string{"cluster_token_url": ""})}, "cluster_token_url"},
		"the endpoint outside":    {[]string{"--from-directory", mounted(t, good, nil), "--cluster-url=false"}, "outside.invalid"},
		"an authority nobody knows": {
			[]string{"--from-directory", mounted(t, good, map[string]string{"ca.crt": ""})}, "certificate",
		},
		"an authority that isn't PEM": {
			[]string{"--from-directory", mounted(t, good, map[string]string{"ca.crt": "x"})}, "ca.crt",
		},
		"nobody there":     {[]string{"--from-directory", mounted(t, gone, nil)}, gone.URL},
		"refused":          {[]string{"--from-directory", at(refused)}, "401 Unauthorized invalid_client: Client authentication failed."},
		"no answer of it":  {[]string{"--from-directory", at(answer{http.StatusBadGateway, "<html>\n"})}, "502 Bad Gateway"},
		"no JSON":          {[]string{"--from-directory", at(answer{http.StatusOK, "<html>\n"})}, "json"},
		"no token":         {[]string{"--from-directory", at(answer{http.StatusOK, "{}"})}, "access_token"},
		"a token, not JWT": {[]string{"--from-directory", at(answer{http.StatusOK, `{"access_token":"opaque"}`})}, "JWT"},
		// --wait is of no use: these don't pass.
		"a request it can't take": {[]string{"--from-directory", at(answer{http.StatusBadRequest, `{"error":"invalid_scope"}`}), "--wait", "1h"}, "invalid_scope"},
		"nothing, for long":       {[]string{"--wait", "1h"}, "--from-directory"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"token"}, test.args...)...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 1 and a line with %q", code, stdout, stderr, test.want)
			}
			if strings.Contains(stderr, clientSecret) {
				t.Error("the line shows the secret")
			}
		})
	}
}

func TestTokenWaits(t *testing.T) {
	t.Run("for the client to be known", func(t *testing.T) {
		for name, first := range map[string]answer{
			"unknown client": refused,
			"unknown realm":  {http.StatusNotFound, `{"error":"invalid_request"}`},
			"too often":      {http.StatusTooManyRequests, `{"error":"temporarily_unavailable"}`},
			"not loaded":     {http.StatusServiceUnavailable, `{"error":"temporarily_unavailable"}`},
		} {
			t.Run(name, func(t *testing.T) {
				waits(t, mounted(t, endpoint(t, first, granted), nil))
			})
		}
	})
	t.Run("for the files to appear", func(t *testing.T) {
		server := endpoint(t, granted)
		whole := mounted(t, server, nil)
		dir := filepath.Join(t.TempDir(), "later")
		failed := make(chan error, 1)
		go func() { failed <- os.Rename(whole, dir) }()
		waits(t, dir)
		if err := <-failed; err != nil {
			t.Error(err)
		}
	})
	t.Run("and no longer", func(t *testing.T) {
		code, _, stderr := run(t, "token", "--wait", "600ms", "--from-directory", mounted(t, endpoint(t, refused), nil))
		if code != 1 || !strings.Contains(stderr, "invalid_client") {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	})
}

func waits(t *testing.T, dir string) {
	t.Helper()
	if code, stdout, stderr := run(t, "token", "-o", "token", "--wait", "1m", "--from-directory", dir); code != 0 || stdout != accessToken+"\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestVersionAndHelp(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--help"}, {"token", "--help"}} {
		if code, stdout, stderr := run(t, args...); code != 0 || stdout == "" || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := run(t, "nonsense"); code != 1 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("an unknown verb: exit code %d, %q", code, stderr)
	}
}
