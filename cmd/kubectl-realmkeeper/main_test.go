package main

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

// Scripts notice that a verb is a command of its own now.
func TestMovedVerb(t *testing.T) {
	const want = "kubectl realmkeeper serve is now a command of its own: realmkeeper-local. See docs/local-issuer.md\n"
	if code, stdout, stderr := commandtest.Run(t, "serve", "-f", "config/samples"); code != 2 || stdout != "" || stderr != want {
		t.Errorf("exit code %d, stdout %q, stderr %q; want 2 and %q", code, stdout, stderr, want)
	}
}
