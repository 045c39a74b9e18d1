package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

func TestHelp(t *testing.T) {
	commandtest.Help(t, "realmkeeper-local -f FILENAME", "  realmkeeper-local -f config/samples\n", "--credentials-dir")
}

func TestInvalidInput(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no flags":     {nil, "realmkeeper-local: required flag(s) \"filename\" not set\n"},
		"argument":     {[]string{"--filename", "a", "serve"}, "realmkeeper-local: unknown command \"serve\" for \"realmkeeper-local\"\n"},
		"no such file": {[]string{"--filename", "other", "--port", "0"}, "Error: the path \"other\" does not exist\nrealmkeeper-local: invalid files; correct the errors above\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, stdout, stderr := commandtest.Run(t, test.args...); code != 1 || stdout != "" || stderr != test.want {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 1 and %q", code, stdout, stderr, test.want)
			}
		})
	}
}

// Ctrl+C ends the local issuer without errors, even while it processes objects.
func TestStopsQuietly(t *testing.T) {
	var objects strings.Builder
	objects.WriteString("apiVersion: auth.realmkeeper.dev/v1beta1\nkind: Realm\nmetadata: {name: acme}\nspec: {scopes: [read], grants: [{name: apps, namespaces: {names: [apps]}, scopes: ['*'], audiences: ['*']}]}\n")
	for i := range 60 {
		fmt.Fprintf(&objects, "---\napiVersion: auth.realmkeeper.dev/v1beta1\nkind: ApiClient\nmetadata: {name: client-%d, namespace: apps}\nspec: {realmRef: {name: acme}, scopes: [read], secret: {generated: {}}}\n", i)
	}
	dir := t.TempDir()
	file, credentials := filepath.Join(dir, "objects.yaml"), filepath.Join(dir, "credentials")
	testkit.Do(t, os.WriteFile(file, []byte(objects.String()), 0o600))
	code, _, stderr := commandtest.Interrupt(t, func() bool {
		written, err := filepath.Glob(filepath.Join(credentials, "apps", "*"))
		return err == nil && len(written) > 0
	}, "--filename", file, "--credentials-dir", credentials, "--port", "0")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr)
	}
}
