// Package commandtest runs the programs in cmd/ as users do, to test their flags, exit codes and
// output.
package commandtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// programVariable is the environment variable that makes the test binary run the program.
const programVariable = "REALMKEEPER_TEST_PROGRAM"

// Main runs the tests of a program, given its main function, and exits. The test binary is also the
// program, so that the tests don't have to build it.
func Main(m *testing.M, program func()) {
	if os.Getenv(programVariable) != "" {
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Run starts the program without access to an API server and returns its exit code and output.
func Run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // The test binary runs itself.
	cmd.Env = []string{"HOME=" + t.TempDir(), programVariable + "=1"}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok {
		code = exit.ExitCode()
	}
	return code, out.String(), errOut.String()
}

// Help checks that the program prints how it is used, with the given texts.
func Help(t *testing.T, want ...string) {
	t.Helper()
	for _, flag := range []string{"-h", "--help"} {
		code, stdout, stderr := Run(t, flag)
		if missing := func(text string) bool { return !strings.Contains(stdout, text) }; code != 0 || stderr != "" || slices.ContainsFunc(want, missing) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", flag, code, stdout, stderr)
		}
	}
}
