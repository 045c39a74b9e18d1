package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

const (
	exportedHash = "$pbkdf2-sha256$i=25000,l=32$CABI/y5hPsdrC8hIVzOUWA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8"
	twoClients   = `[{"client_id":"billing","grant_types":["client_credentials"],"metadata":{"a":1}},{"client_id":"web\u001b[2J","grant_types":["authorization_code"]}]`
)

// exported writes files of an export to a new directory and changes to it.
func exported(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		testkit.Do(t, os.WriteFile(name, []byte(content), 0o600))
	}
}

func entries(t *testing.T) []string {
	t.Helper()
	all := testkit.Value(filepath.Glob("*"))(t)
	hidden := testkit.Value(filepath.Glob(".*"))(t)
	return append(all, hidden...)
}

var hydraArguments = []string{"import", "hydra", "clients.json", "--hashes", "hashes.txt", "--realm", "acme", "-n", "acme-apps"}

func TestImportWritesFiles(t *testing.T) {
	exported(t, map[string]string{"clients.json": twoClients, "hashes.txt": "billing|" + exportedHash})
	code, stdout, stderr := run(t, append(hydraArguments, "--output-dir", "acme")...)
	if code != 1 || stdout != "" {
		t.Fatalf("Exit code %d, stdout %q; want 1, because a client was not imported", code, stdout)
	}
	want := `Wrote 1 ApiClients and the Realm acme to acme.

NOT IMPORTED (1)
  it does not have the grant type client_credentials, and only clients with it
  can move
    web [2J

WARNINGS (1)
  these settings have no equivalent and are dropped: metadata
    billing
`
	testkit.Diff(t, "Report", want, stderr)
	testkit.Diff(t, "Files", []string{"acme", "clients.json", "hashes.txt"}, entries(t))
	written, err := os.ReadFile(filepath.Join("acme", "secret-billing.yaml"))
	if err != nil || !strings.Contains(string(written), exportedHash) {
		t.Errorf("%v: %s", err, written)
	}

	// Nothing is overwritten.
	testkit.Do(t, os.WriteFile(filepath.Join("acme", "apiclient-billing.yaml"), []byte("edited"), 0o600))
	code, _, stderr = run(t, append(hydraArguments, "--output-dir", "acme")...)
	if kept, err := os.ReadFile(filepath.Join("acme", "apiclient-billing.yaml")); code != 1 || err != nil || string(kept) != "edited" || !strings.Contains(stderr, "choose another name") {
		t.Errorf("Existing directory: exit code %d, %q, the file contains %q, %v", code, stderr, kept, err)
	}

	// Without a directory, the same objects are written to standard output.
	_, stdout, _ = run(t, hydraArguments...)
	if !strings.HasPrefix(stdout, "---\napiVersion: ") || !strings.Contains(stdout, "---\n"+string(written)+"---\n") {
		t.Errorf("Standard output is %s", stdout)
	}
	if _, again, _ := run(t, hydraArguments...); again != stdout {
		t.Error("A second import has another result")
	}
}

// If a file is damaged or an argument is wrong, nothing is written.
func TestImportWritesAllOrNothing(t *testing.T) {
	realm := `{"realm":"shop","clients":[{"clientId":"billing","serviceAccountsEnabled":true,"secret":"a canary secret, which is long"}]}`
	files := map[string]string{
		"clients.json": twoClients, "hashes.txt": "billing|" + exportedHash, "truncated.json": twoClients[:100], "object.json": "{}",
		"hashes.bad": "billing " + exportedHash, "realm.json": realm, "realm.truncated": realm[:110], "realms.json": "[" + realm + "," + strings.Replace(realm, "shop", "other", 1) + "]",
		"public.json": `[{"client_id":"a","grant_types":["client_credentials"],"token_endpoint_auth_method":"none"}]`,
	}
	exported(t, files)
	before := entries(t)
	target := []string{"--realm", "acme", "-n", "acme-apps", "--output-dir", "acme"}
	for name, tc := range map[string]struct {
		arguments []string
		want      string
	}{
		"truncated page":      {append([]string{"hydra", "clients.json", "truncated.json", "--hashes", "hashes.txt"}, target...), "the JSON ends too early"},
		"damaged hashes":      {append([]string{"hydra", "clients.json", "--hashes", "hashes.bad"}, target...), "line 1 must be <client ID>|<hash>"},
		"same page twice":     {append([]string{"hydra", "clients.json", "clients.json", "--hashes", "hashes.txt"}, target...), "in the input twice"},
		"only public clients": {append([]string{"hydra", "public.json", "--hashes", "hashes.txt"}, target...), "No client can move"},
		"invalid lifetime":    {append([]string{"hydra", "clients.json", "--hashes", "hashes.txt", "--token-lifetime", "25h"}, target...), "--token-lifetime must be between"},
		"no such directory":   {[]string{"hydra", "clients.json", "--hashes", "hashes.txt", "--realm", "acme", "-n", "a", "--output-dir", "x/y"}, "writing x/y"},
		"two realms":          {append([]string{"keycloak", "realms.json"}, target...), "--from-realm to a realm in the file: other, shop"},
		"another realm":       {append([]string{"keycloak", "realm.json", "--from-realm", "acme"}, target...), "--from-realm to a realm in the file: shop"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"import"}, tc.arguments...)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, tc.want) || strings.Contains(stderr, "canary") {
				t.Errorf("Exit code %d, stdout %q, stderr %q; want 1 and %q", code, stdout, stderr, tc.want)
			}
			testkit.Diff(t, "Files", before, entries(t))
		})
	}
	code, stdout, stderr := run(t, "import", "keycloak", "realms.json", "--from-realm", "shop", "--realm", "acme", "-n", "a")
	if code != 0 || !strings.Contains(stdout, "$argon2id$") || strings.Contains(stdout+stderr, "canary") {
		t.Errorf("A selected realm: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
