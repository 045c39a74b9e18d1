package interop_test

import (
	"encoding/base64"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documentedRequirements is what all guides require of a token.
const documentedRequirements = "audience=" + audience + "&scope=" + scope

var (
	requirePath    = regexp.MustCompile(`/acme/oauth2/verify/require/(\S+)`)
	requireCommand = regexp.MustCompile(`(?m)^\$ (printf .*base64.*)\n(.*)$`)
)

// TestDocumentedRequirements checks the encoded requirements in the guides and the documented
// command that encodes them.
func TestDocumentedRequirements(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	found := 0
	err := filepath.WalkDir(filepath.Join(docs, "gateways"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, match := range requirePath.FindAllStringSubmatch(string(content), -1) {
			found++
			if got, err := base64.RawURLEncoding.Strict().DecodeString(match[1]); err != nil || string(got) != documentedRequirements {
				t.Errorf("%s requires %q, want %q: %v", path, got, documentedRequirements, err)
			}
		}
		return err
	})
	if err != nil || found < 2 {
		t.Errorf("found %d paths with requirements in the guides, want at least 2: %v", found, err)
	}

	page, err := os.ReadFile(filepath.Join(docs, "token-endpoint.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := requireCommand.FindStringSubmatch(string(page))
	if len(documented) != 3 || !strings.Contains(documented[1], documentedRequirements) {
		t.Fatalf("the command that encodes %q is missing", documentedRequirements)
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-c", documented[1]).CombinedOutput()
	if err != nil || string(out) != documented[2] {
		t.Errorf("%s\nprints %q, the page says %q: %v", documented[1], out, documented[2], err)
	}
}
