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

// commandTimeout limits each command. It is generous and not a performance goal.
const commandTimeout = 5 * time.Minute

// run runs a command and returns its output. If the command fails, the test fails.
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

// root is the root directory of the repository.
var root = filepath.Join("..", "..")

// tool returns the path of a program that make e2e builds.
func tool(name string) string {
	return filepath.Join(os.Getenv("E2E_BIN"), name)
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, tool("kubectl"), args...)
}

// needsNode skips the test unless the cluster runs on this machine, because the test stops the API
// server or kills containers.
func needsNode(t *testing.T) {
	t.Helper()
	if os.Getenv("E2E_NODE") == "" {
		t.Skip("requires the node of make cluster-up; run make e2e without KUBECONFIG")
	}
}

// node runs a command of the cluster program, which works only on the node's machine.
func node(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, tool("cluster"), args...)
}
