package api_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/test/framework/console"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// TestReadme applies the objects in README.md to a real API server. kubectl must print tables with the
// columns that README.md shows.
func TestReadme(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, objects, _ := strings.Cut(string(content), "```yaml\n")
	objects, _, found := strings.Cut(objects, "```")
	shown := console.Blocks(t, "README.md", "kubectl get realms,apiclients -A")[0].Commands[0].Output
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil || !found {
		t.Fatalf("README.md has no objects: %v", err)
	}
	cluster := env.Start(t)
	deleteObjects(t, cluster)
	cluster.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(manifests, "samples", "namespace.yaml"))
	cluster.Kubectl(t, "apply", "--server-side", "--filename", file)
	printed := cluster.Kubectl(t, "get", "realms,apiclients", "-A")
	if diff := cmp.Diff(headers(printed), headers(shown)); diff != "" {
		t.Errorf("(-kubectl +README.md):\n%s", diff)
	}
}

// spaces separate columns. The names of columns contain single spaces.
var spaces = regexp.MustCompile(` {2,}`)

// headers returns the names of the columns of each table.
func headers(tables string) (names [][]string) {
	for table := range strings.SplitSeq(tables, "\n\n") {
		header, _, _ := strings.Cut(table, "\n")
		names = append(names, spaces.Split(header, -1))
	}
	return names
}
