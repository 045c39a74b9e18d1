package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/commandtest"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

// kubeconfig configures an API server that does not exist.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none}}]
current-context: none
`

// Invalid input makes the program exit immediately. The last line of its output names the flag to
// correct.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		testkit.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	pair := testkit.Value(pki.NewCA(nil, 24*time.Hour, time.Now(), rand.Reader))(t)
	other := testkit.Value(pki.NewCA(nil, 24*time.Hour, time.Now(), rand.Reader))(t)
	cert, key, api := file("tls.crt", string(pair.Certificate)), file("tls.key", string(pair.Key)), file("kubeconfig", kubeconfig)
	with := func(args ...string) []string {
		return append([]string{"--name", "a", "--tls-cert-file", cert, "--tls-key-file", key, "--kubeconfig", api, "--operations-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"}, args...)
	}
	none := filepath.Join(dir, "none")
	tests := map[string]struct {
		args []string
		want string
	}{
		"no flags":                        {nil, "--tls-cert-file"},
		"no name":                         {with("--name="), "--name"},
		"name invalid in a Lease name":    {with("--name", "My Host"), "--name"},
		"no namespace":                    {with("--namespace="), "--namespace"},
		"staleness too short":             {with("--max-staleness", "29s"), "--max-staleness"},
		"idle timeout too short":          {with("--idle-timeout", "4s"), "--idle-timeout"},
		"resolution too low":              {with("--usage-resolution", "999ms"), "--usage-resolution"},
		"audit log directory missing":     {with("--audit-log", filepath.Join(none, "audit.log")), "--audit-log"},
		"proxy is not a network":          {with("--trusted-proxies", "10.0.0.1"), "trusted-proxies"},
		"passthrough with PROXY protocol": {with("--passthrough-proxies", "10.1.0.0/16", "--proxy-protocol-from", "10.0.0.0/8"), "--passthrough-proxies"},
		"unexpected argument":             {with("surplus"), "surplus"},
		"missing certificate file":        {with("--tls-cert-file", none), "--tls-cert-file"},
		"key of another certificate":      {with("--tls-key-file", file("other.key", string(other.Key))), "--tls-key-file"},
		"no API server":                   {with("--kubeconfig="), "--kubeconfig"},
		"missing kubeconfig":              {with("--kubeconfig", none), "--kubeconfig"},
		"invalid address":                 {with("--listen", "nowhere"), "--listen"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := commandtest.Run(t, tc.args...)
			if code == 0 {
				t.Error("exit code 0")
			}
			_, message, _ := strings.Cut("\n"+stderr, "\nrealmkeeper token-server: ") // log lines may precede the error
			if strings.Count(message, "\n") != 1 || !strings.HasSuffix(message, "\n") || !strings.Contains(message, tc.want) {
				t.Errorf("stderr %q, want one line that names %s", stderr, tc.want)
			}
			if strings.Contains(stderr, "PRIVATE KEY") {
				t.Errorf("stderr contains the private key: %q", stderr)
			}
		})
	}
}

func TestHelp(t *testing.T) { commandtest.Help(t, "--tls-cert-file FILE", "-operations-listen") }
