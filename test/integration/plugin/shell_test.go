package plugin_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

var update = flag.Bool("update", false, "Write the golden files instead of comparing them")

// shell runs commands as a user with a terminal does: with kubectl, the plugin, and the link
// for its completion on the PATH.
type shell struct {
	env []string
	dir string
}

func newShell(t *testing.T, cluster *env.Env) *shell {
	t.Helper()
	plugin, dir := install.Binary(t, cluster, "kubectl-realmkeeper"), t.TempDir()
	if err := os.Symlink(plugin, filepath.Join(dir, "kubectl_complete-realmkeeper")); err != nil {
		t.Fatal(err)
	}
	path := []string{dir, cluster.BinDir, filepath.Dir(plugin), os.Getenv("PATH")}
	return &shell{dir: dir, env: []string{
		"PATH=" + strings.Join(path, ":"), "HOME=" + dir, "KUBECONFIG=" + cluster.Kubeconfig,
		"KUBE_EDITOR=true", // saves nothing, so "kubectl edit" changes nothing
	}}
}

// outcome is the result of a command.
type outcome struct {
	code           int
	stdout, stderr string
}

// run runs a command line. Its output is not a terminal.
func (s *shell) run(t *testing.T, line string) outcome {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", line)
	command.Env, command.Dir = s.env, s.dir
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	got := outcome{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if strings.HasPrefix(line, "kubectl realmkeeper ") {
		checkFormat(t, line, got)
	}
	return got
}

// checkFormat checks that the output has no colors and fits into 80 columns. Commands and URLs are
// not wrapped, because users copy them.
func checkFormat(t *testing.T, line string, got outcome) {
	t.Helper()
	if strings.ContainsRune(got.stdout+got.stderr, '\x1b') {
		t.Errorf("%s: the output has colors although it is not a terminal: %q, %q", line, got.stdout, got.stderr)
	}
	if strings.Contains(line, " -o ") || strings.HasPrefix(line, "kubectl realmkeeper hash") || strings.HasPrefix(line, "kubectl realmkeeper token") {
		return // for programs
	}
	for l := range strings.Lines(got.stdout) {
		if l = strings.TrimSuffix(l, "\n"); utf8.RuneCountInString(l) > 80 && !strings.HasPrefix(strings.TrimSpace(l), "kubectl ") && !strings.Contains(l, "https://") {
			t.Errorf("%s: a line has more than 80 columns: %q", line, l)
		}
	}
}

// succeeds runs a command line and fails the test unless its exit code is 0.
func (s *shell) succeeds(t *testing.T, line string) string {
	t.Helper()
	got := s.run(t, line)
	if got.code != 0 {
		t.Errorf("%s: exit code %d, %q, %q", line, got.code, got.stdout, got.stderr)
	}
	return got.stdout
}

// fails runs a command line and fails the test unless its exit code is 1, it prints nothing, and the
// error is one line with the given words.
func (s *shell) fails(t *testing.T, line string, words ...string) {
	t.Helper()
	got := s.run(t, line)
	if got.code != 1 || got.stdout != "" {
		t.Errorf("%s: exit code %d, stdout %q; want 1 and only an error", line, got.code, got.stdout)
	}
	lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
	for _, word := range words {
		if last := lines[len(lines)-1]; !strings.Contains(last, word) {
			t.Errorf("%s: error %q does not contain %q", line, last, word)
		}
	}
}

// varying contains patterns for the parts of the output that differ between runs, and their
// replacements.
var varying = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\.localhost:[0-9]+`), ".localhost:PORT"},
	{regexp.MustCompile(`\b[A-Za-z0-9_-]{43}\b`), "KEY-ID"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "SECRET-ID"},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`), "TIME"},
	{regexp.MustCompile(`\b([0-9]+[smhd])+ ago`), "AGE ago"},
	{regexp.MustCompile(`\bin ([0-9]+[smhd])+`), "in AGE"},
	{regexp.MustCompile(`Active +for ([0-9]+[smhd])+`), "Active  for AGE"},
	{regexp.MustCompile(`realmkeeper-test[a-z0-9-]*|test[a-z-]*-[a-z0-9]{5}\b`), "NAMESPACE"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "}, // the widths of columns
}

// golden compares output with a file in testdata.
func golden(t *testing.T, name, output string) {
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
