package main

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, main) }

func TestHelp(t *testing.T) {
	commandtest.Help(t, "realmkeeper-local -f FILENAME", "  realmkeeper-local -f config/samples\n", "--credentials-dir")
}

func TestInvalidInput(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no flags":     {nil, "realmkeeper-local: required flag(s) \"filename\" not set\n"},
		"argument":     {[]string{"--filename", "a", "serve"}, "realmkeeper-local: unknown command \"serve\" for \"realmkeeper-local\"\n"},
		"no such file": {[]string{"--filename", "other", "--port", "0"}, "Error: the path \"other\" does not exist\nrealmkeeper-local: invalid files; correct the errors above\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, stdout, stderr := commandtest.Run(t, test.args...); code != 1 || stdout != "" || stderr != test.want {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 1 and %q", code, stdout, stderr, test.want)
			}
		})
	}
}
