package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

// TestInvalidInput checks that the error is a single line that names the invalid flag.
func TestInvalidInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		testkit.Do(t, os.WriteFile(path, []byte(content), 0o600))
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
		"no flags":                           {nil, "--session-key-file"},
		"missing session key file":           {with("--session-key-file", none), "--session-key-file"},
		"short session key":                  {with("--session-key-file", file("short", strings.Repeat("k", 31)+"\n")), "--session-key-file"},
		"empty API server URL":               {with("--api-server="), "--api-server"},
		"API server URL without TLS":         {with("--api-server", "http://127.0.0.1:1"), "--api-server"},
		"short idle timeout":                 {with("--idle-timeout", "4m"), "--idle-timeout"},
		"short time until stale":             {with("--stale-after", "59m"), "--stale-after"},
		"missing authority file":             {with("--api-server-ca-file", none), "--api-server-ca-file"},
		"certificate without key":            {with("--tls-cert-file", key), "--tls-key-file"},
		"initial admin without namespace":    {with("--initial-admin", "admin"), "--initial-admin"},
		"issuer without client ID":           {issuer("--oidc-client-id="), "--oidc-client-id"},
		"client ID without issuer":           {issuer("--oidc-issuer-url="), "--oidc-issuer-url"},
		"issuer URL without TLS":             {issuer("--oidc-issuer-url", "http://login.example.com"), "--oidc-issuer-url"},
		"public URL with a path":             {issuer("--public-url", "https://example.com/portal"), "--public-url"},
		"missing client secret file":         {issuer("--oidc-client-secret-file", none), "--oidc-client-secret-file"},
		"authority file without certificate": {issuer("--oidc-ca-file", key), "--oidc-ca-file"},
		"proxy is not a network":             {with("--trusted-proxies", "10.0.0.1"), "trusted-proxies"},
		"passthrough with PROXY protocol":    {with("--passthrough-proxies", "10.1.0.0/16", "--proxy-protocol-from", "10.0.0.0/8"), "--passthrough-proxies"},
		"positional argument":                {with("surplus"), "surplus"},
		"invalid listen address":             {with("--listen", "nowhere"), "--listen"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := commandtest.Run(t, tc.args...)
			if code == 0 {
				t.Error("Exit code is 0")
			}
			if strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") || !strings.Contains(stderr, tc.want) {
				t.Errorf("Stderr is %q, want one line with %s", stderr, tc.want)
			}
		})
	}
}

func TestHelp(t *testing.T) { commandtest.Help(t, "--session-key-file FILE", "-oidc-issuer-url") }

// The portal must trust the certificate authority of an OIDC issuer on the internet.
func TestTrustsPublicAuthoritiesWithoutSystemRoots(t *testing.T) { commandtest.PublicAuthorities(t) }
