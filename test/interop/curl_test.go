package interop_test

import (
	"crypto/rand"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

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
	for page, atLeast := range map[string]int{"README.md": 1, "docs/token-endpoint.md": 5} {
		commands := documentedCurls(t, page)
		if len(commands) < atLeast {
			t.Errorf("%s has %d curl commands, want at least %d", page, len(commands), atLeast)
		}
		for _, documented := range commands {
			command := exec.CommandContext(t.Context(), "bash", "-c", documented)
			command.Dir, command.Env = home, cluster
			out, err := command.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %s\n%v: %s", page, documented, err, out)
			} else if !json.Valid(out) && !strings.HasPrefix(string(out), "HTTP/2 200") { // the output that --include adds
				t.Errorf("%s: %s\nprints %s, want JSON or a response with status 200", page, documented, out)
			}
		}
	}
}

// command matches a curl command in a console block, including continuation lines.
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

// testCurlUser requests tokens with curl --user, which doesn't form-urlencode the secret as RFC 6749
// requires. A plus sign, a percent sign, and a colon in it are therefore ambiguous.
func testCurlUser(t *testing.T, i *installation) {
	for name, secret := range map[string]string{
		"decodable":     "not+secret:%2B%3A-for-curl",
		"not decodable": "not+secret:100%-for-curl",
	} {
		t.Run(name, func(t *testing.T) {
			verifier, err := clientsecret.HashArgon2id(secret, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			c := install.ApiClient(i.client.Namespace, "curl-"+strings.ReplaceAll(name, " ", "-"), i.realm.Name, func(c *v1alpha1.ApiClient) {
				c.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: "imported", Hash: verifier.String()}}}
			})
			i.inst.Create(t, c)
			i.inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			for sent, want := range map[string]string{secret: "200", url.QueryEscape(secret): "200", secret + "+": "401"} {
				// --retry tries again after status 503, while the hash of the secret is computed. It truncates
				// the output first, so this can't be /dev/null.
				command := exec.CommandContext(t.Context(), "curl", "--disable", "--silent", "--show-error", "--retry", "10",
					"--cacert", i.authority, "--user", c.Status.ClientID+":"+sent, "--data", "grant_type=client_credentials",
					"--output", filepath.Join(t.TempDir(), "response"), "--write-out", "%{http_code}", i.tokenURL)
				if out, err := command.CombinedOutput(); err != nil || string(out) != want {
					t.Errorf("The secret %q: %v, status %s, want %s", sent, err, out, want)
				}
			}
		})
	}
}
