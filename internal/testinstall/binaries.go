package testinstall

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/controlplane"
)

// buildTimeout bounds a build with cold caches on two cores.
const buildTimeout = 15 * time.Minute

// binaries are built once for each test binary, with the race detector: what it finds ends the process.
var binaries = sync.OnceValues(func() (string, error) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "realmkeeper-binaries-")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-race", "-buildvcs=false", "-o", dir+"/", "./cmd/operator", "./cmd/token-server")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building operator and token server: %w\n%s", err, out)
	}
	return dir, nil
})

func binary(t testing.TB, name string) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// RemoveBinaries removes what was built, at the end of a test binary.
func RemoveBinaries() error {
	dir, err := binaries()
	if err != nil {
		return nil //nolint:nilerr // What was not built needs no removing.
	}
	return os.RemoveAll(dir)
}
