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

// Ctrl+C ends the local issuer without errors, even while it processes objects.
func TestServeStopsQuietly(t *testing.T) {
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
	}, "serve", "--filename", file, "--credentials-dir", credentials, "--port", "0")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr)
	}
}
