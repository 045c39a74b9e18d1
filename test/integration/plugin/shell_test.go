package plugin_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
)

// shell runs commands as a user with a terminal does: with kubectl, the plugin, and the link
// for its completion on the PATH.
type shell struct {
	env []string
	dir string
}

func newShell(t *testing.T, cluster *env.Env) *shell {
	t.Helper()
	program, dir := install.Binary(t, cluster, "kubectl-realmkeeper"), t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "kubectl_complete-realmkeeper")); err != nil {
		t.Fatal(err)
	}
	path := []string{dir, cluster.BinDir, filepath.Dir(program), os.Getenv("PATH")}
	return &shell{dir: dir, env: []string{
		"PATH=" + strings.Join(path, ":"), "HOME=" + dir, "KUBECONFIG=" + cluster.Kubeconfig,
		"KUBE_EDITOR=true", // saves nothing, so "kubectl edit" changes nothing
	}}
}

// run runs a command line. Its output is not a terminal.
func (s *shell) run(t *testing.T, line string) plugin.Outcome {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", line)
	command.Env, command.Dir = s.env, s.dir
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	got := plugin.Outcome{Code: command.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	if strings.HasPrefix(line, "kubectl realmkeeper ") {
		checkFormat(t, line, got)
	}
	return got
}

// checkFormat checks that the output has no colors and fits into 80 columns. Commands and URLs are
// not wrapped, because users copy them.
func checkFormat(t *testing.T, line string, got plugin.Outcome) {
	t.Helper()
	if strings.ContainsRune(got.Stdout+got.Stderr, '\x1b') {
		t.Errorf("%s: the output has colors although it is not a terminal: %q, %q", line, got.Stdout, got.Stderr)
	}
	if strings.Contains(line, " -o ") || strings.HasPrefix(line, "kubectl realmkeeper hash") || strings.HasPrefix(line, "kubectl realmkeeper token") {
		return // for programs
	}
	for l := range strings.Lines(got.Stdout) {
		if l = strings.TrimSuffix(l, "\n"); utf8.RuneCountInString(l) > 80 && !strings.HasPrefix(strings.TrimSpace(l), "kubectl ") && !strings.Contains(l, "https://") {
			t.Errorf("%s: a line has more than 80 columns: %q", line, l)
		}
	}
}

// succeeds runs a command line and fails the test unless its exit code is 0.
func (s *shell) succeeds(t *testing.T, line string) string {
	t.Helper()
	got := s.run(t, line)
	if got.Code != 0 {
		t.Errorf("%s: exit code %d, %q, %q", line, got.Code, got.Stdout, got.Stderr)
	}
	return got.Stdout
}

// fails runs a command line and fails the test unless its exit code is 1, it prints nothing, and the
// error is one line with the given words.
func (s *shell) fails(t *testing.T, line string, words ...string) {
	t.Helper()
	got := s.run(t, line)
	if got.Code != 1 || got.Stdout != "" {
		t.Errorf("%s: exit code %d, stdout %q; want 1 and only an error", line, got.Code, got.Stdout)
	}
	for _, word := range words {
		if !strings.Contains(got.ErrorLine(), word) {
			t.Errorf("%s: error %q does not contain %q", line, got.ErrorLine(), word)
		}
	}
}
