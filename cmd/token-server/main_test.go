package main_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/servingcert"
)

// tokenServer is the path of the binary under test.
var tokenServer string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "token-server-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		tokenServer = filepath.Join(dir, "token-server")
		if out, err := exec.Command("go", "build", "-o", tokenServer, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the token server: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// run starts the binary where no API server is, and returns its exit code and output.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tokenServer, args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok {
		code = exit.ExitCode()
	}
	return code, out.String(), errOut.String()
}

// kubeconfig names an API server that isn't there.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none}}]
current-context: none
`

// Each bad start ends at once, with one line that names what to change.
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
			code, _, stderr := run(t, tc.args...)
			if code == 0 {
				t.Error("exit code 0")
			}
			if strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") || !strings.Contains(stderr, tc.want) {
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
		code, stdout, stderr := run(t, flag)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "--tls-cert-file FILE") || !strings.Contains(stdout, "-operations-listen") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", flag, code, stdout, stderr)
		}
	}
}
