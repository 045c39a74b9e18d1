// Package plugin runs the kubectl plugin and kubectl as a user does, and compares their output with
// golden files.
package plugin

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// User runs commands against a cluster. The plugin runs in this process, which is faster than a program
// and can be interrupted at any point.
type User struct {
	// Kubeconfig is the path of the kubeconfig for the plugin. kubectl uses that of the cluster.
	Kubeconfig string

	cluster *env.Env
}

// NewUser returns a user with all permissions.
func NewUser(cluster *env.Env) *User { return &User{cluster: cluster, Kubeconfig: cluster.Kubeconfig} }

// Outcome is the result of a command.
type Outcome struct {
	Code           int
	Stdout, Stderr string
}

// ErrorLine returns the last line of standard error.
func (o Outcome) ErrorLine() string {
	lines := strings.Split(strings.TrimSuffix(o.Stderr, "\n"), "\n")
	return lines[len(lines)-1]
}

// Run runs the plugin with a context.
func (u *User) Run(ctx context.Context, args ...string) Outcome {
	var stdout, stderr bytes.Buffer
	streams := plugin.Streams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr}
	code := plugin.Run(ctx, streams, append(args, "--kubeconfig", u.Kubeconfig))
	return Outcome{code, stdout.String(), stderr.String()}
}

// Succeeds runs the plugin and returns its standard output. The test fails unless the exit code is 0.
func (u *User) Succeeds(t *testing.T, args ...string) string {
	t.Helper()
	got := u.Run(t.Context(), args...)
	if got.Code != 0 {
		t.Fatalf("%q: exit code %d, %s%s", args, got.Code, got.Stdout, got.Stderr)
	}
	return got.Stdout
}

// Fails runs the plugin and expects exit code 1 and an error with the given words.
func (u *User) Fails(t *testing.T, words string, args ...string) Outcome {
	t.Helper()
	got := u.Run(t.Context(), args...)
	if got.Code != 1 || !strings.Contains(got.ErrorLine(), words) {
		t.Errorf("%q: exit code %d, %q; want 1 and %q", args, got.Code, got.ErrorLine(), words)
	}
	return got
}

// Kubectl runs kubectl and returns its exit code and output.
func (u *User) Kubectl(t *testing.T, stdin string, args ...string) (code int, out string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(u.cluster.BinDir, "kubectl"), append(args, "--kubeconfig", u.cluster.Kubeconfig)...)
	command.Stdin = strings.NewReader(stdin)
	output, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(output)
}

// Apply applies manifests.
func (u *User) Apply(t *testing.T, manifests string) {
	t.Helper()
	if code, out := u.Kubectl(t, manifests, "apply", "--filename", "-"); code != 0 {
		t.Fatalf("kubectl apply: %s", out)
	}
}

// NewIdentity returns the path of a new file of an age identity, and its recipient.
func NewIdentity(t *testing.T) (path, recipient string) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "identity.txt")
	if err := os.WriteFile(path, []byte("# test\n"+identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, identity.Recipient().String()
}
