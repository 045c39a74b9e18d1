package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/commandtest"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

func TestHelp(t *testing.T) {
	commandtest.Help(t, "realmkeeper-import hydra clients.json --hashes", "realmkeeper-import keycloak realm.json", "Usage:")
}

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

var hydraArguments = []string{"hydra", "clients.json", "--hashes", "hashes.txt", "--realm", "acme", "-n", "acme-apps"}

func TestImportWritesFiles(t *testing.T) {
	exported(t, map[string]string{"clients.json": twoClients, "hashes.txt": "billing|" + exportedHash})
	code, stdout, stderr := commandtest.Run(t, append(hydraArguments, "--output-dir", "acme")...)
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
	code, _, stderr = commandtest.Run(t, append(hydraArguments, "--output-dir", "acme")...)
	if kept, err := os.ReadFile(filepath.Join("acme", "apiclient-billing.yaml")); code != 1 || err != nil || string(kept) != "edited" || !strings.Contains(stderr, "choose another name") {
		t.Errorf("Existing directory: exit code %d, %q, the file contains %q, %v", code, stderr, kept, err)
	}

	// Without a directory, the same objects are written to standard output.
	_, stdout, _ = commandtest.Run(t, hydraArguments...)
	if !strings.HasPrefix(stdout, "---\napiVersion: ") || !strings.Contains(stdout, "---\n"+string(written)+"---\n") {
		t.Errorf("Standard output is %s", stdout)
	}
	if _, again, _ := commandtest.Run(t, hydraArguments...); again != stdout {
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
			code, stdout, stderr := commandtest.Run(t, tc.arguments...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, tc.want) || strings.Contains(stderr, "canary") {
				t.Errorf("Exit code %d, stdout %q, stderr %q; want 1 and %q", code, stdout, stderr, tc.want)
			}
			testkit.Diff(t, "Files", before, entries(t))
		})
	}
	code, stdout, stderr := commandtest.Run(t, "keycloak", "realms.json", "--from-realm", "shop", "--realm", "acme", "-n", "a")
	if code != 0 || !strings.Contains(stdout, "$argon2id$") || strings.Contains(stdout+stderr, "canary") {
		t.Errorf("A selected realm: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// The clients of another system have names and IDs that its users chose.
func TestImportReportsHostileClients(t *testing.T) {
	var clients []map[string]any
	for i, text := range hostile.Texts {
		clients = append(clients,
			map[string]any{"client_id": text, "client_name": text, "grant_types": []string{"authorization_code"}},
			map[string]any{"client_id": "imported-" + string(rune('a'+i%26)) + strings.Repeat("x", i), "client_name": text, "grant_types": []string{"client_credentials"}, "owner": text},
		)
	}
	var hashes strings.Builder
	for _, c := range clients[1:] {
		if id, ok := c["client_id"].(string); ok && strings.HasPrefix(id, "imported-") {
			hashes.WriteString(id + "|" + exportedHash + "\n")
		}
	}
	exported(t, map[string]string{"clients.json": string(testkit.Value(json.Marshal(clients))(t)), "hashes.txt": hashes.String()})

	code, stdout, stderr := commandtest.Run(t, hydraArguments...)
	hostile.CheckPrintable(t, stdout)
	hostile.CheckPrintable(t, stderr)
	if code != 1 || !strings.Contains(stderr, "NOT IMPORTED") {
		t.Fatalf("Exit code %d, stderr %s", code, stderr)
	}
	var descriptions []string
	for document := range strings.SplitSeq(stdout, "---\n") {
		var c v1beta1.ApiClient
		if err := yaml.Unmarshal([]byte(document), &c); err != nil {
			t.Errorf("%v:\n%s", err, document)
		}
		if c.Kind == "ApiClient" {
			descriptions = append(descriptions, c.Spec.Description)
		}
	}
	if len(descriptions) != len(hostile.Texts) {
		t.Errorf("Output has %d clients, want %d", len(descriptions), len(hostile.Texts))
	}

	_, _, stderr = commandtest.Run(t, append(hydraArguments, "--report", "json", "--output-dir", "acme")...)
	hostile.CheckPrintable(t, stderr)
	var report struct{ NotImported []struct{ ClientID string } }
	if err := json.Unmarshal([]byte(stderr), &report); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	var got, want []string
	for _, f := range report.NotImported {
		got = append(got, f.ClientID)
	}
	for _, text := range hostile.Texts {
		want = append(want, strings.ToValidUTF8(text, "\ufffd"))
	}
	slices.Sort(want)
	testkit.Diff(t, "Clients in the report", want, got)
}
