package interop_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/console"
)

// shown matches the parts of a documented response that are the same in each run: the status, the names of headers
// and members, and whether a token is active.
var shown = regexp.MustCompile(`(?m)^HTTP/2 200|^[\w-]+: |"\w+":(?:true|false)?`)

// testDocumentedCurl runs the curl commands from the documentation as they are printed, in a directory
// with the files that a Pod gets from the credentials Secret.
func testDocumentedCurl(t *testing.T, i *installation) {
	home := t.TempDir()
	authority, err := os.ReadFile(i.authority)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"client_id": i.clientID, "client_secret": i.clientSecret, "ca.crt": string(authority),
		"cluster_token_url": i.tokenURL,                             // no Service selects this token server
		".curlrc":           "fail-with-body\nsilent\nshow-error\n", // exit with an error if the HTTP status is an error
		"assertion.jwt":     i.signer.assertion(t),
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issuer, err := url.Parse(i.issuer)
	if err != nil {
		t.Fatal(err)
	}
	base := "https://" + issuer.Host
	cluster := append(os.Environ(), "CURL_HOME="+home, "CA_FILE="+i.authority, "AUTH_URL="+base, "REALM="+i.realm.Name, "TOKEN_URL="+i.tokenURL,
		"CLIENT_ID="+i.clientID, "CLIENT_SECRET="+i.clientSecret, "TOKEN="+i.token(t))
	for _, blocks := range [][]console.Block{
		console.Blocks(t, "docs/for-applications.md"),
		console.Blocks(t, "docs/token-endpoint.md", "curl "),
	} {
		for _, block := range blocks {
			for _, documented := range block.Commands {
				if !strings.HasPrefix(documented.Text, "curl ") {
					continue
				}
				command := exec.CommandContext(t.Context(), "bash", "-c", documented.Text)
				command.Dir, command.Env = home, cluster
				out, err := command.CombinedOutput()
				if err != nil {
					t.Errorf("%s:%d: %s\n%v: %s", block.Page, documented.Line, documented.Text, err, out)
				}
				for _, part := range shown.FindAllString(documented.Output, -1) {
					if !strings.Contains(string(out), part) {
						t.Errorf("%s:%d: %s\nprints %s, want %q as in the page", block.Page, documented.Line, documented.Text, out, part)
					}
				}
			}
		}
	}
}
