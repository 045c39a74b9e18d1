// Package examples_test checks code in the documentation that no program contains.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerifyPage checks that the program in Go on the page builds, and that the one for Node.js is a part of
// the program that test/interop runs.
func TestVerifyPage(t *testing.T) {
	page := read(t, "../verify.md")
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(block(t, page, "go")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, source).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(read(t, "../../test/interop/node/status-list.js"), block(t, page, "js")) {
		t.Error("docs/verify.md and test/interop/node/status-list.js differ; change both")
	}
}

// block returns the code block in a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, code, found := strings.Cut(page, "\n```"+language+"\n")
	code, _, closed := strings.Cut(code, "```\n")
	if !found || !closed {
		t.Fatalf("No block in %s", language)
	}
	return code
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
