package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/cmd/internal/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m) }

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
	key, none := file("key", strings.Repeat("k", 32)), filepath.Join(dir, "none")
	with := func(args ...string) []string {
		return append([]string{"--session-key-file", key, "--api-server", "https://127.0.0.1:1", "--listen", "127.0.0.1:0", "--operations-listen", "127.0.0.1:0"}, args...)
	}
	issuer := func(args ...string) []string {
		return append(with("--oidc-issuer-url", "https://127.0.0.1:1", "--oidc-client-id", "portal", "--public-url", "https://portal.example.com"), args...)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"no flags":                        {nil, "--session-key-file"},
		"no key":                          {with("--session-key-file="), "--session-key-file"},
		"no such key":                     {with("--session-key-file", none), "--session-key-file"},
		"a short key":                     {with("--session-key-file", file("short", strings.Repeat("k", 31)+"\n")), "--session-key-file"},
		"no API server":                   {with("--api-server="), "--api-server"},
		"an API server without TLS":       {with("--api-server", "http://127.0.0.1:1"), "--api-server"},
		"no such authority":               {with("--api-server-ca-file", none), "--api-server-ca-file"},
		"a certificate without its key":   {with("--tls-cert-file", key), "--tls-key-file"},
		"no such certificate":             {with("--tls-cert-file", none, "--tls-key-file", none), "--tls-cert-file"},
		"an account without a namespace":  {with("--initial-admin", "admin"), "--initial-admin"},
		"an issuer without a client":      {issuer("--oidc-client-id="), "--oidc-client-id"},
		"a client without an issuer":      {issuer("--oidc-issuer-url="), "--oidc-issuer-url"},
		"an issuer without a way back":    {issuer("--public-url="), "--public-url"},
		"an issuer without TLS":           {issuer("--oidc-issuer-url", "http://login.example.com"), "--oidc-issuer-url"},
		"a way back with a path":          {issuer("--public-url", "https://example.com/portal"), "--public-url"},
		"no such secret":                  {issuer("--oidc-client-secret-file", none), "--oidc-client-secret-file"},
		"an authority that is none":       {issuer("--oidc-ca-file", key), "--oidc-ca-file"},
		"an unknown flag":                 {with("--nonsense"), "nonsense"},
		"an argument":                     {with("surplus"), "surplus"},
		"a bad address":                   {with("--listen", "nowhere"), "--listen"},
		"a bad address of the operations": {with("--operations-listen", "127.0.0.1:99999"), "--operations-listen"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := commandtest.Run(t, tc.args...)
			if code == 0 {
				t.Error("exit code 0")
			}
			if strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") || !strings.Contains(stderr, tc.want) {
				t.Errorf("%q, want one line that names %s", stderr, tc.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, flag := range []string{"-h", "--help"} {
		code, stdout, stderr := commandtest.Run(t, flag)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "--session-key-file FILE") || !strings.Contains(stdout, "-oidc-issuer-url") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", flag, code, stdout, stderr)
		}
	}
}
