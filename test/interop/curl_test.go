package interop_test

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the pages for people say to type is typed here.
func testDocumentedCurl(t *testing.T, p *place) {
	home := t.TempDir()
	for name, content := range map[string]string{
		".curlrc":       "fail-with-body\nsilent\nshow-error\n", // an error is one for the shell too
		"assertion.jwt": p.signer.assertion(t),
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issuer, err := url.Parse(p.issuer)
	if err != nil {
		t.Fatal(err)
	}
	base := "https://" + issuer.Host
	env := append(os.Environ(), "CURL_HOME="+home, "CURL_CA_BUNDLE="+p.authority,
		"CA_FILE="+p.authority, "AUTH_URL="+base, "REALM="+p.realm.Name, "TOKEN_URL="+p.tokenURL,
		"CLIENT_ID="+p.clientID, "CLIENT_SECRET="+p.clientSecret, "TOKEN="+p.token(t))
	for page, atLeast := range map[string]int{"README.md": 1, "docs/token-endpoint.md": 5} {
		commands := documentedCurls(t, page)
		if len(commands) < atLeast {
			t.Errorf("%s has %d commands with curl, want %d and more", page, len(commands), atLeast)
		}
		for _, documented := range commands {
			command := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(documented, "https://api.example.com", base))
			command.Dir, command.Env = home, env
			out, err := command.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %s\n%v: %s", page, documented, err, out)
			} else if !json.Valid(out) && !strings.HasPrefix(string(out), "HTTP/2 200") { // which --include shows
				t.Errorf("%s: %s\nanswers %s", page, documented, out)
			}
		}
	}
}

// command is one in a console block, which may go on in further lines.
var command = regexp.MustCompile(`(?m)^\$ (curl (?:.*\\\n)*.*)$`)

func documentedCurls(t *testing.T, page string) (commands []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range command.FindAllStringSubmatch(string(content), -1) {
		commands = append(commands, found[1])
	}
	return commands
}
