package main_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/framework/console"
)

// TestReadme follows the first commands of README.md, from a clone to a token.
func TestReadme(t *testing.T) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	temporary, printed := t.TempDir(), ""
	shell := console.NewShell(t, t.TempDir(), "TMPDIR="+temporary)
	shell.Rewrite = func(command string) string {
		if command == "make serve" {
			// The terminal of the reader is busy from here on.
			return "{ make serve PORT=0; } &"
		}
		return strings.Replace(command, "https://github.com/realmkeeper/realmkeeper", root+" realmkeeper", 1)
	}
	shell.Replace = func(text string) string {
		printed = text
		return strings.ReplaceAll(text, temporary, "/tmp")
	}
	shell.Run(t, console.Blocks(t, "README.md", "make serve")...)

	_, command, found := strings.Cut(printed, "Get a token:\n")
	command, _, _ = strings.Cut(command, "\n\n")
	if !found || !strings.Contains(command, filepath.Join(temporary, "realmkeeper-")) {
		t.Fatalf("make serve prints no command that gets a token:\n%s", printed)
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-c", command).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"access_token":"`) {
		t.Errorf("%s\nprints %s (%v), want a token", command, out, err)
	}
}
