package interop_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testJavaHTTP2 checks that Java's HttpClient can send 100 requests at a time. It fails if a connection has
// more requests than the server allows: it neither waits nor opens another connection.
func testJavaHTTP2(t *testing.T, i *installation) {
	endpoint, err := url.Parse(i.tokenURL)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(i.authority)
	if err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 "+endpoint.Hostname()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	body := url.Values{"grant_type": {"client_credentials"}, "client_id": {i.clientID}, "client_secret": {i.clientSecret}}
	command := exec.CommandContext(t.Context(), "java", "-Djdk.net.hosts.file="+hosts, filepath.Join("testdata", "ManyRequests.java"))
	command.Env = append(os.Environ(), "AUTHORITY="+string(authority), "TOKEN_URL="+i.tokenURL, "BODY="+body.Encode())
	out, err := command.CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "{HTTP_2 200=500}"; err != nil || got != want {
		t.Errorf("results are %s, want %s: %v", got, want, err)
	}
}
