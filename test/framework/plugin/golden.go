package plugin

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "Write the golden files instead of comparing them")

// varying contains patterns for the parts of the output that differ between runs, and their
// replacements.
var varying = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\.localhost:[0-9]+`), ".localhost:PORT"},
	{regexp.MustCompile(`(^|[^A-Za-z0-9_-])[A-Za-z0-9_-]{43}\b`), "${1}KEY-ID"}, // can begin with a dash
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "SECRET-ID"},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`), "TIME"},
	{regexp.MustCompile(`\b([0-9]+[smhd])+ ago`), "AGE ago"},
	{regexp.MustCompile(`\bin ([0-9]+[smhd])+`), "in AGE"},
	{regexp.MustCompile(`Active +for ([0-9]+[smhd])+`), "Active  for AGE"},
	{regexp.MustCompile(`realmkeeper-test[a-z0-9-]*|test[a-z-]*-[a-z0-9]{5}\b`), "NAMESPACE"},
	{regexp.MustCompile(`Kubernetes +v1\.[0-9.]+`), "Kubernetes  KUBERNETES"},
	{regexp.MustCompile(`(Version +|token-server-[0-9] +)[-0-9A-Za-z.]+`), "${1}VERSION"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "}, // the widths of columns
}

// Golden compares output with a file in testdata, apart from what differs between runs. The flag -update
// writes the file instead.
func Golden(t *testing.T, name, output string) {
	t.Helper()
	for _, v := range varying {
		output = v.pattern.ReplaceAllString(output, v.replacement)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(output), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), output); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
