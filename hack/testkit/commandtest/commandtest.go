// Package commandtest runs the programs in cmd/ as users do, to test their flags, exit codes and
// output.
package commandtest

import (
	"bytes"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
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
	return run(t, func(*exec.Cmd) {}, args)
}

// Interrupt is like Run, but sends SIGINT once ready returns true.
func Interrupt(t *testing.T, ready func() bool, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return run(t, func(cmd *exec.Cmd) {
		for deadline := time.Now().Add(time.Minute); !ready(); <-time.After(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("The program did not become ready")
			}
		}
		testkit.Do(t, cmd.Process.Signal(os.Interrupt))
	}, args)
}

func run(t *testing.T, started func(*exec.Cmd), args []string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), programVariable + "=1"}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	testkit.Do(t, cmd.Start())
	started(cmd)
	err := cmd.Wait()
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

// PublicAuthorities checks that the program trusts certificate authorities on a system without any, such as
// the image. The calling test runs again in a process of its own, because they are loaded once.
func PublicAuthorities(t *testing.T) {
	t.Helper()
	const child = "REALMKEEPER_WITHOUT_SYSTEM_ROOTS"
	if os.Getenv(child) != "" {
		if roots, err := x509.SystemCertPool(); err != nil || roots.Equal(x509.NewCertPool()) {
			t.Fatalf("no certificate authority is trusted: %v", err)
		}
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), child+"=1", "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
	if output, err := again.CombinedOutput(); err != nil {
		t.Errorf("Without system roots: %v\n%s", err, output)
	}
}
