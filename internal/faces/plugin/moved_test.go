package plugin_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

// Scripts that still use a verb that is a command of its own now learn its name, and notice the exit code.
func TestMovedVerbs(t *testing.T) {
	for verb, want := range map[string]string{
		"import": "kubectl realmkeeper import is now a command of its own: realmkeeper-import. See docs/migration.md\n",
		"serve":  "kubectl realmkeeper serve is now a command of its own: realmkeeper-local. See docs/local-issuer.md\n",
	} {
		for _, args := range [][]string{
			{}, {"--help"}, {"-h"}, {"hydra", "clients.json", "--hashes", "hashes.txt", "-n", "a"}, {"-f", "config/samples", "--port=0"}, {"--", "-x"},
		} {
			code, stdout, stderr := plugintest.Run(t, append([]string{verb}, args...)...)
			if code != 2 || stdout != "" || stderr != want {
				t.Errorf("%s %q: exit code %d, stdout %q, stderr %q; want 2 and %q", verb, args, code, stdout, stderr, want)
			}
		}
	}
}
