//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/console"
)

// TestGetStarted runs every command of docs/get-started.md in order, as a new user does, except for
// those that need Docker or remove the cluster. What the page shows is what the commands print.
func TestGetStarted(t *testing.T) {
	needsNode(t)
	removeReusable(t)
	t.Cleanup(func() {
		if t.Failed() {
			logState(t)
		}
		// If all commands succeeded, nothing is left.
		_, _ = try(context.Background(), tool("kubectl"), "delete", "namespace", "acme-apps", "--ignore-not-found")
		if err := removeAll(); err != nil {
			t.Error(err)
		}
	})
	directory, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	shell := console.NewShell(t, directory, "PATH="+os.Getenv("E2E_BIN")+":"+os.Getenv("PATH"))
	shell.Run(t, console.Blocks(t, "docs/get-started.md")...)
}
