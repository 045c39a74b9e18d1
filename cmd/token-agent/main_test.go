package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

const secret = "rk_JustASecretOfATest"

func TestHelp(t *testing.T) {
	commandtest.Help(t, "token-agent once", "token-agent check --output FILE", "-service-account-token-file file", "-format Format")
}

// Invalid arguments make the program exit immediately, with one line that names what to correct.
func TestBadInput(t *testing.T) {
	with := func(args ...string) []string {
		return append([]string{"--output", "/nonexistent/token", "--credentials-dir", "/nonexistent"}, args...)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no flags":                    {nil, "--output"},
		"no credentials":              {[]string{"--output", "token"}, "--credentials-dir"},
		"two kinds of credentials":    {with("--service-account-token-file", "token"), "--credentials-dir"},
		"service account without URL": {[]string{"--output", "token", "--service-account-token-file", "token"}, "--token-url"},
		"client ID with a secret":     {with("--client-id", "a"), "--client-id"},
		"URL without TLS":             {with("--token-url", "http://api.example.com/acme/oauth2/token"), "--token-url"},
		"URL without host":            {with("--token-url", "api.example.com"), "--token-url"},
		"URL with user":               {with("--token-url", "https://a:"+secret+"@api.example.com/"), "--token-url"},
		"unknown format":              {with("--format", "yaml"), "token, envoy-sds, or exec-credential"},
		"mode that isn't octal":       {with("--mode", "rw"), "octal"},
		"mode with more than 9 bits":  {with("--mode", "4640"), "octal"},
		"no time":                     {append([]string{"once"}, with("--timeout", "0s")...), "--timeout"},
		"unknown verb":                {with("twice"), "twice"},
		"check without file":          {[]string{"check"}, "--output"},
		"unknown flag":                {with("--realm", "acme"), "realm"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := commandtest.Run(t, test.args...)
			if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) || strings.Contains(stderr, secret) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 2 and one line that contains %s", code, stdout, stderr, test.want)
			}
		})
	}
}

func TestAddressInUse(t *testing.T) {
	listener := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	code, _, stderr := commandtest.Run(t, "--output", "/nonexistent/token", "--credentials-dir", "/nonexistent", "--metrics-address", listener.Addr().String())
	if code != 1 || !strings.Contains(stderr, "--metrics-address") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// startTokenEndpoint returns the directory of a credentials Secret whose token endpoint issues tokens.
func startTokenEndpoint(t *testing.T) (credentials string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, given, _ := r.BasicAuth(); given != secret {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"Client authentication failed."}`)
			return
		}
		fmt.Fprint(w, `{"access_token":"a.b.c","token_type":"bearer","expires_in":300}`)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"client_id": "billing", "client_secret": secret, "token_url": server.URL + "/acme/oauth2/token",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	} {
		testkit.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func TestOnceAndCheck(t *testing.T) {
	credentials, output := startTokenEndpoint(t), filepath.Join(t.TempDir(), "token")
	if code, _, stderr := commandtest.Run(t, "check", "--output", output); code != 1 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("check without a file: exit code %d, stderr %q", code, stderr)
	}
	if code, stdout, stderr := commandtest.Run(t, "once", "--output", output, "--credentials-dir", credentials, "--mode", "0644"); code != 0 || stdout+stderr != "" {
		t.Fatalf("once: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if info := testkit.Value(os.Stat(output))(t); info.Mode() != 0o644 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	if code, stdout, stderr := commandtest.Run(t, "check", "--output", output); code != 0 || stdout+stderr != "" {
		t.Errorf("check: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	past := time.Now().Add(-time.Second)
	testkit.Do(t, os.Chtimes(output, past, past))
	if code, _, stderr := commandtest.Run(t, "check", "--output", output); code != 1 || !strings.Contains(stderr, "expired at") {
		t.Errorf("check after the token expired: exit code %d, stderr %q", code, stderr)
	}
}

// Once tries again, and then prints the last failure in one line.
func TestOnceFails(t *testing.T) {
	credentials := startTokenEndpoint(t)
	testkit.Do(t, os.WriteFile(filepath.Join(credentials, "client_secret"), []byte("wrong-secret"), 0o600))
	code, stdout, stderr := commandtest.Run(t, "once", "--output", filepath.Join(t.TempDir(), "token"), "--credentials-dir", credentials, "--timeout", "1500ms")
	if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no token: https://127.0.0.1:") || !strings.Contains(stderr, "invalid_client") || strings.Contains(stderr, "wrong-secret") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// The agent writes the file, serves its metrics, and leaves the file when it is stopped.
func TestRun(t *testing.T) {
	credentials, output := startTokenEndpoint(t), filepath.Join(t.TempDir(), "token")
	listener := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := listener.Addr().String()
	listener.Close()
	var metrics string
	code, stdout, stderr := commandtest.Interrupt(t, func() bool {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		metrics = string(testkit.Value(io.ReadAll(response.Body))(t))
		_, err = os.Stat(output)
		return err == nil
	}, "--output", output, "--credentials-dir", credentials, "--metrics-address", address)
	if code != 0 || stdout != "" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	for line := range strings.Lines(stderr) {
		if !json.Valid([]byte(line)) || strings.Contains(line, secret) || strings.Contains(line, "a.b.c") {
			t.Errorf("the log has the line %q", line)
		}
	}
	if content := testkit.Value(os.ReadFile(output))(t); string(content) != "a.b.c" {
		t.Errorf("the file has %q", content)
	}
	if !strings.Contains(metrics, "realmkeeper_token_agent_expires_in_seconds") {
		t.Errorf("the metrics are\n%s", metrics)
	}
}
