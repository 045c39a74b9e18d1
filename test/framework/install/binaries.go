package install

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// buildTimeout bounds a build with cold caches on two cores.
const buildTimeout = 15 * time.Minute

// build is done once for each test binary.
var build struct {
	once sync.Once
	err  error
}

// binary returns the path of the product's binary of that name. It stands in the
// directory of the control plane, and goes with it.
func (i *Installation) binary(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(i.Env.Kubeconfig), "bin")
	build.once.Do(func() { build.err = buildInto(dir) })
	if build.err != nil {
		t.Fatal(build.err)
	}
	return filepath.Join(dir, name)
}

func buildInto(dir string) error {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return fmt.Errorf("building operator and token server: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	args := append([]string{"build", "-buildvcs=false", "-o", dir + "/"}, buildFlags...)
	command := exec.CommandContext(ctx, "go", append(args, "./cmd/operator", "./cmd/token-server")...)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building operator and token server: %w\n%s", err, out)
	}
	return nil
}
