package env

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Kubectl runs kubectl as an administrator and returns its standard output. A warning, such as one about
// Pod Security, fails the test. Cleanups can also use it.
func (e *Env) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	var out, errOut strings.Builder
	command := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(e.BinDir, "kubectl"), append([]string{"--kubeconfig", e.Kubeconfig}, args...)...)
	command.Stdout, command.Stderr = &out, &errOut
	command.Env = append(os.Environ(), "KUBECTL_EXTERNAL_DIFF=diff -u")
	if err := command.Run(); err != nil || errOut.Len() > 0 {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.String()
}
