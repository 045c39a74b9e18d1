package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/cmd/internal/commandtest"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

// kubeconfig names an API server that isn't there.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none}}]
current-context: none
`

// Each bad start ends at once, and the last of what it says is one line that names what to change.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair, err := servingcert.NewAuthority(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := servingcert.NewAuthority(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, api := file("tls.crt", string(pair.Certificate)), file("tls.key", string(pair.Key)), file("kubeconfig", kubeconfig)
	with := func(args ...string) []string {
		return append([]string{"--name", "a", "--tls-cert-file", cert, "--tls-key-file", key, "--kubeconfig", api, "--operations-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"}, args...)
	}
	none := filepath.Join(dir, "none")
	tests := map[string]struct {
		args []string
		want string
	}{
		"no flags":                      {nil, "--tls-cert-file"},
		"no certificate":                {with("--tls-cert-file="), "--tls-cert-file"},
		"no key":                        {with("--tls-key-file="), "--tls-key-file"},
		"no name":                       {with("--name="), "--name"},
		"a name that no Lease can have": {with("--name", "My Host"), "--name"},
		"no namespace":                  {with("--namespace="), "--namespace"},
		"an unknown flag":               {with("--nonsense"), "nonsense"},
		"a bad value of a flag":         {with("--drain-delay", "soon"), "drain-delay"},
		"an audit log nowhere":          {with("--audit-log", filepath.Join(none, "audit.log")), "--audit-log"},
		"a proxy that is no network":    {with("--trusted-proxies", "10.0.0.1"), "trusted-proxies"},
		"a flag without a value":        {with("--listen"), "listen"},
		"an argument":                   {with("surplus"), "surplus"},
		"no such certificate":           {with("--tls-cert-file", none), "--tls-cert-file"},
		"no such key":                   {with("--tls-key-file", none), "--tls-key-file"},
		"a broken certificate":          {with("--tls-cert-file", api), "--tls-cert-file"},
		"another's key":                 {with("--tls-key-file", file("other.key", string(other.Key))), "--tls-key-file"},
		"no API server":                 {with("--kubeconfig="), "--kubeconfig"},
		"no such kubeconfig":            {with("--kubeconfig", none), "--kubeconfig"},
		"a broken kubeconfig":           {with("--kubeconfig", key), "--kubeconfig"},
		"a bad address":                 {with("--listen", "nowhere"), "--listen"},
		"a bad address of operations":   {with("--operations-listen", "127.0.0.1:99999"), "--operations-listen"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := commandtest.Run(t, tc.args...)
			if code == 0 {
				t.Error("exit code 0")
			}
			_, told, _ := strings.Cut("\n"+stderr, "\nrealmkeeper token-server: ") // the log may come before it
			if strings.Count(told, "\n") != 1 || !strings.HasSuffix(told, "\n") || !strings.Contains(told, tc.want) {
				t.Errorf("%q, want one line that names %s", stderr, tc.want)
			}
			if strings.Contains(stderr, "PRIVATE KEY") {
				t.Errorf("%q tells the key", stderr)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, flag := range []string{"-h", "--help"} {
		code, stdout, stderr := commandtest.Run(t, flag)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "--tls-cert-file FILE") || !strings.Contains(stdout, "-operations-listen") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", flag, code, stdout, stderr)
		}
	}
}
