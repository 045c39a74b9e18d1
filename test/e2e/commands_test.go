//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// commandTimeout bounds one command. It is no promise of speed.
const commandTimeout = 5 * time.Minute

// run runs a command and returns what it printed. It fails the test when the command does.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = root
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// root is the repository.
var root = filepath.Join("..", "..")

// tool returns the path of a program that make e2e has built.
func tool(name string) string {
	return filepath.Join(os.Getenv("E2E_BIN"), name)
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, tool("kubectl"), args...)
}

// needsNode ends a test that stops the API server or kills containers on a cluster whose
// node this machine doesn't run.
func needsNode(t *testing.T) {
	t.Helper()
	if os.Getenv("E2E_NODE") == "" {
		t.Skip("This needs the node of make cluster-up: run make e2e without KUBECONFIG.")
	}
}

// node does what only the machine that runs the node can do.
func node(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, tool("cluster"), args...)
}
