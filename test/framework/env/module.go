package env

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// Module returns the directory of a Go module that contains third-party CRDs and is pinned by
// hack/tools/crds. It downloads the module if necessary.
func Module(t testing.TB, module string) string {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	pins := filepath.Join(root, "hack", "tools", "crds")
	out, err := exec.CommandContext(t.Context(), "go", "-C", pins, "mod", "download", "-json", module).Output()
	var result struct{ Dir, Error string }
	if decoded := json.Unmarshal(out, &result); err != nil || decoded != nil || result.Error != "" {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			result.Error += string(exit.Stderr)
		}
		t.Fatalf("Failed to download %s: %v: %s", module, err, result.Error)
	}
	return result.Dir
}
