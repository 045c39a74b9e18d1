package install

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// binariesVariable is the environment variable that contains the absolute path of a directory with
// the product's binaries. make sets it so that all suites share one build. If it is unset, each
// test binary builds the binaries it needs. raceBinariesVariable is the same for binaries with the race
// detector; suites with env.WithRaceDetector prefer them.
const (
	binariesVariable     = "REALMKEEPER_BINARIES"
	raceBinariesVariable = "REALMKEEPER_RACE_BINARIES"
)

// buildTimeout limits a build with cold caches on two cores.
const buildTimeout = 15 * time.Minute

// built contains the binaries that this test binary has already built.
var built struct {
	sync.Mutex
	errs map[string]error // by path, because each control plane has its own directory
}

// Binary returns the path of the product's binary with the given name under cmd. A binary that is
// built here is stored in the control plane's directory and removed with it.
func Binary(t testing.TB, cluster *env.Env, name string) string {
	t.Helper()
	dir := os.Getenv(binariesVariable)
	if cluster.RaceDetector {
		dir = cmp.Or(os.Getenv(raceBinariesVariable), dir)
	}
	if dir != "" {
		return filepath.Join(dir, name)
	}
	path := filepath.Join(filepath.Dir(cluster.Kubeconfig), "bin", name)
	built.Lock()
	defer built.Unlock()
	err, done := built.errs[path]
	if !done {
		err = build(name, path)
		if built.errs == nil {
			built.errs = map[string]error{}
		}
		built.errs[path] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build runs in the root of the repository, so that it uses the product's dependency versions.
func build(name, path string) error {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return fmt.Errorf("building %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	args := slices.Concat([]string{"build"}, controlplane.ProductFlags, buildFlags, []string{"-o", path, "./cmd/" + name})
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return nil
}
