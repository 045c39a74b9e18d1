package observers_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// metricName matches the name of a metric where it is defined.
var metricName = regexp.MustCompile(`"(realmkeeper_[a-z_]+)"`)

// TestDocumentedMetrics checks that docs/operations/monitoring.md describes every metric of the programs.
func TestDocumentedMetrics(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics := 0
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, found := range metricName.FindAllSubmatch(code, -1) {
			metrics++
			if !bytes.Contains(page, append([]byte("`"), found[1]...)) {
				t.Errorf("docs/operations/monitoring.md does not describe %s", found[1])
			}
		}
		return err
	})
	if err != nil || metrics < 40 {
		t.Errorf("found %d metrics, want at least 40: %v", metrics, err)
	}
}
