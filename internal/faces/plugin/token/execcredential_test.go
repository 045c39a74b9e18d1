package token_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

// A Kubernetes client gets the version that it asks for, and renews the token a little before it expires.
func TestTokenExecCredential(t *testing.T) {
	const v1, v1beta1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
	for name, test := range map[string]struct {
		info, want  string
		expiresIn   string
		wantRenewal time.Duration
	}{
		"on a terminal":    {"", v1, "300", 270 * time.Second},
		"v1":               {`{"kind":"ExecCredential","apiVersion":"` + v1 + `","spec":{"interactive":false}}`, v1, "300", 270 * time.Second},
		"v1beta1":          {`{"kind":"ExecCredential","apiVersion":"` + v1beta1 + `","spec":{"interactive":true}}`, v1beta1, "120", 90 * time.Second},
		"a short lifetime": {"", v1, "12", 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_EXEC_INFO", test.info)
			server := endpoint(t, response{http.StatusOK, `{"access_token":"a.b.c","token_type":"bearer","expires_in":` + test.expiresIn + `}`})
			before := time.Now()
			code, stdout, stderr := plugintest.Run(t, "token", "--from-directory", mounted(t, server, nil), "--output=exec-credential")
			after := time.Now()
			got := &clientauthenticationv1.ExecCredential{}
			if err := json.Unmarshal([]byte(stdout), got); err != nil || code != 0 || stderr != "" {
				t.Fatalf("Exit code %d, %q, %q: %v", code, stdout, stderr, err)
			}
			if got.APIVersion != test.want || got.Kind != "ExecCredential" || got.Status.Token != "a.b.c" || strings.Count(stdout, "\n") != 1 {
				t.Errorf("The response is %s", stdout)
			}
			// The time has no fractions of a second.
			renewal := got.Status.ExpirationTimestamp.Time
			if earliest, latest := before.Add(test.wantRenewal-time.Second), after.Add(test.wantRenewal+time.Second); renewal.Before(earliest) || renewal.After(latest) {
				t.Errorf("The token is renewed at %s, want between %s and %s", renewal, earliest, latest)
			}
		})
	}
}

func TestTokenExecCredentialErrors(t *testing.T) {
	good := mounted(t, endpoint(t, tokenResponse), nil)
	unlimited := mounted(t, endpoint(t, response{http.StatusOK, `{"access_token":"a.b.c"}`}), nil)
	expired := mounted(t, endpoint(t, response{http.StatusOK, `{"access_token":"a.b.c","expires_in":-5}`}), nil)
	for name, test := range map[string]struct {
		info, mark, want string
		args             []string
	}{
		"another version": {
			info: `{"apiVersion":"client.authentication.k8s.io/v1alpha1"}`, want: `set that of exec in the kubeconfig to client.authentication.k8s.io/v1`,
			args: []string{"--from-directory", good},
		},
		"not JSON":          {info: "x", want: "reading KUBERNETES_EXEC_INFO", args: []string{"--from-directory", good}},
		"no expiration":     {want: "no positive expires_in", args: []string{"--from-directory", unlimited}},
		"expired":           {want: "no positive expires_in", args: []string{"--from-directory", expired}},
		"started by itself": {mark: "true", want: "use --from-directory, or another --context", args: []string{"billing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_EXEC_INFO", test.info)
			t.Setenv("REALMKEEPER_EXEC_CREDENTIAL", test.mark)
			code, stdout, stderr := plugintest.Run(t, append([]string{"token", "--output=exec-credential"}, test.args...)...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
				t.Errorf("Exit code %d, stdout %q, stderr %q; want 1 and one line with %q", code, stdout, stderr, test.want)
			}
		})
	}
}

// A kubeconfig whose user is this command, with the name of a client, would start it endlessly.
func TestTokenExecCredentialOfItself(t *testing.T) {
	t.Setenv("REALMKEEPER_EXEC_CREDENTIAL", "")
	kubeconfig := filepath.Join(t.TempDir(), "config")
	// Instead of this command, a script that fails unless it is marked.
	write(t, kubeconfig, `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c, user: c}}],
users: [{name: c, user: {exec: {
  apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never,
  args: ["-c", 'test "$REALMKEEPER_EXEC_CREDENTIAL" = true && exit 42; exit 1'],
}}}]}`)
	code, _, stderr := plugintest.Run(t, "token", "billing", "--output=exec-credential", "--kubeconfig", kubeconfig)
	if code != 1 || !strings.Contains(stderr, "exit code 42") {
		t.Errorf("Exit code %d, %q", code, stderr)
	}
}
