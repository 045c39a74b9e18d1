package kubectlplugin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/kubectlplugin"
)

const password = "correct horse battery staple"

// runWith runs the plugin in this process, with something on its standard input.
func runWith(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = kubectlplugin.Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut}, args)
	return code, out.String(), errOut.String()
}

// hashIn returns the one hash that stands in YAML for an ApiClient.
func hashIn(t *testing.T, snippet string) v1alpha1.HashedSecret {
	t.Helper()
	c := &v1alpha1.ApiClient{}
	if err := yaml.UnmarshalStrict([]byte(snippet), c); err != nil {
		t.Fatalf("%v:\n%s", err, snippet)
	}
	if c.Spec.Secret == nil || len(c.Spec.Secret.Hashed) != 1 {
		t.Fatalf("there is not one hash in\n%s", snippet)
	}
	return c.Spec.Secret.Hashed[0]
}

func isHashOf(t *testing.T, hash, secret string, wantSlow bool) {
	t.Helper()
	verifier, err := clientsecret.ParseVerifier(hash)
	if err != nil {
		t.Fatal(err)
	}
	if !verifier.Verify(secret) || verifier.Slow() != wantSlow {
		t.Errorf("%s verifies the secret: %t, slowly: %t", hash, verifier.Verify(secret), verifier.Slow())
	}
}

func TestHashOfANewSecret(t *testing.T) {
	code, stdout, stderr := run(t, "hash")
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	secret := lines[len(lines)-1]
	if code != 0 || !clientsecret.WellFormed(secret) || strings.Contains(stdout, secret) {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	isHashOf(t, hashIn(t, stdout).Hash, secret, false)
	_, again, _ := run(t, "hash")
	if hashIn(t, again).ID == hashIn(t, stdout).ID {
		t.Error("two secrets have one id")
	}
}

func TestHashWithASecretFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	code, stdout, stderr := run(t, "hash", "--id", "2026-03", "--secret-file", file)
	if code != 0 || stderr != "" || hashIn(t, stdout).ID != "2026-03" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	secret, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	isHashOf(t, hashIn(t, stdout).Hash, string(secret), false)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	// What is there is somebody's secret too.
	code, stdout, stderr = run(t, "hash", "--secret-file", file)
	if left, err := os.ReadFile(file); code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || err != nil || !bytes.Equal(left, secret) {
		t.Errorf("a second time: exit code %d, stdout %q, stderr %q, %v", code, stdout, stderr, err)
	}
}

func TestHashOfWhatIsRead(t *testing.T) {
	_, _, stderr := run(t, "hash")
	machine := strings.Split(stderr, "\n")[1]
	for name, test := range map[string]struct {
		stdin, secret string
		slow          bool
	}{
		"a person's":                  {password, password, true},
		"a person's, and a line end":  {password + "\n", password, true},
		"a person's, from Windows":    {password + "\r\n", password, true},
		"with spaces around":          {"  " + password + " \n", "  " + password + " ", true},
		"a machine's":                 {machine + "\n", machine, false},
		"a machine's with a mistake":  {machine[:len(machine)-1] + "!", machine[:len(machine)-1] + "!", true},
		"an ID that YAML would twist": {password, password, true},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runWith(t, test.stdin, "hash", "--stdin", "--id", "1e3")
			if code != 0 || stderr != "" || strings.Contains(stdout, test.secret) {
				t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			isHashOf(t, hashIn(t, stdout).Hash, test.secret, test.slow)
			if id := hashIn(t, stdout).ID; id != "1e3" {
				t.Errorf("its id is %q", id)
			}
		})
	}
}

func TestHashFailsInOneLine(t *testing.T) {
	for name, test := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"too short":        {"secret", []string{"--stdin"}, "16 characters"},
		"nothing":          {"", []string{"--stdin"}, "16 characters"},
		"two lines":        {password + "\n" + password + "\n", []string{"--stdin"}, "line break"},
		"a whole file":     {strings.Repeat("x", 1<<20), []string{"--stdin"}, "1024 characters"},
		"read and written": {password, []string{"--stdin", "--secret-file", "x"}, "--secret-file"},
		"a wrong id":       {"", []string{"--id", "a b"}, "--id"},
		"an argument":      {"", []string{"secret-as-argument"}, "unknown command"},
		"no directory":     {"", []string{"--secret-file", filepath.Join(t.TempDir(), "none", "x")}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runWith(t, test.stdin, append([]string{"hash"}, test.args...)...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) || strings.Contains(stderr, password) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, test.want)
			}
		})
	}
}
