package env

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// Module returns the directory of a Go module that hack/tools/crds pins, for the CRDs of
// others in it. It downloads the module when needed.
func Module(t testing.TB, module string) string {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	pins := filepath.Join(root, "hack", "tools", "crds")
	out, err := exec.CommandContext(t.Context(), "go", "-C", pins, "mod", "download", "-json", module).Output()
	var told struct{ Dir, Error string }
	if decoded := json.Unmarshal(out, &told); err != nil || decoded != nil || told.Error != "" {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			told.Error += string(exit.Stderr)
		}
		t.Fatalf("Downloading %s: %v: %s", module, err, told.Error)
	}
	return told.Dir
}
