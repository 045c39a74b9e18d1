package provision_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

const password = "correct horse battery staple"

// hashIn returns the only hash in a YAML snippet of an ApiClient.
func hashIn(t *testing.T, snippet string) v1beta1.HashedSecret {
	t.Helper()
	c := &v1beta1.ApiClient{}
	if err := yaml.UnmarshalStrict([]byte(snippet), c); err != nil {
		t.Fatalf("%v:\n%s", err, snippet)
	}
	if c.Spec.Secret == nil || len(c.Spec.Secret.Hashed) != 1 {
		t.Fatalf("Want exactly one hash in:\n%s", snippet)
	}
	return c.Spec.Secret.Hashed[0]
}

// wantHashOf fails the test unless hash verifies secret, with Argon2id if wantSlow is set.
func wantHashOf(t *testing.T, hash, secret string, wantSlow bool) {
	t.Helper()
	verifier := testkit.Value(clientsecret.ParseVerifier(hash))(t)
	if !verifier.Verify(secret) || verifier.IsSlow() != wantSlow {
		t.Errorf("%s: Verify() = %t, IsSlow() = %t, want true and %t", hash, verifier.Verify(secret), verifier.IsSlow(), wantSlow)
	}
}

func TestHashGeneratesSecret(t *testing.T) {
	code, stdout, stderr := plugintest.Run(t, "hash")
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	secret := lines[len(lines)-1]
	if code != 0 || !clientsecret.WellFormed(secret) || strings.Contains(stdout, secret) {
		t.Fatalf("Exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	wantHashOf(t, hashIn(t, stdout).Hash, secret, false)
	_, again, _ := plugintest.Run(t, "hash")
	if hashIn(t, again).ID == hashIn(t, stdout).ID {
		t.Error("Two generated secrets have the same ID")
	}
}

func TestHashWritesSecretFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	code, stdout, stderr := plugintest.Run(t, "hash", "--id", "2026-03", "--secret-file", file)
	if code != 0 || stderr != "" || hashIn(t, stdout).ID != "2026-03" {
		t.Fatalf("Exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	secret := testkit.Value(os.ReadFile(file))(t)
	wantHashOf(t, hashIn(t, stdout).Hash, string(secret), false)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("Secret file: %v, %v; want mode 0600", info, err)
	}
	// An existing file may contain a different secret and must not be overwritten.
	code, stdout, stderr = plugintest.Run(t, "hash", "--secret-file", file)
	if left, err := os.ReadFile(file); code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || err != nil || !bytes.Equal(left, secret) {
		t.Errorf("Second run: exit code %d, stdout %q, stderr %q, %v", code, stdout, stderr, err)
	}
}

func TestHashReadsSecretFromStdin(t *testing.T) {
	_, _, stderr := plugintest.Run(t, "hash")
	generated := strings.Split(stderr, "\n")[1]
	for name, test := range map[string]struct {
		stdin, secret string
		slow          bool
	}{
		"chosen secret with line break":      {password + "\n", password, true},
		"chosen secret with Windows newline": {password + "\r\n", password, true},
		"surrounding spaces are kept":        {"  " + password + " \n", "  " + password + " ", true},
		"generated secret":                   {generated + "\n", generated, false},
		"generated secret with a typo":       {generated[:len(generated)-1] + "!", generated[:len(generated)-1] + "!", true},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := plugintest.RunWith(t, test.stdin, "hash", "--stdin", "--id", "1e3")
			if code != 0 || stderr != "" || strings.Contains(stdout, test.secret) {
				t.Fatalf("Exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			wantHashOf(t, hashIn(t, stdout).Hash, test.secret, test.slow)
			if id := hashIn(t, stdout).ID; id != "1e3" {
				t.Errorf("ID = %q, want 1e3", id)
			}
		})
	}
}

func TestHashErrors(t *testing.T) {
	for name, test := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"short secret":             {"secret", []string{"--stdin"}, "16 characters"},
		"two lines":                {password + "\n" + password + "\n", []string{"--stdin"}, "line break"},
		"large file":               {strings.Repeat("x", 1<<20), []string{"--stdin"}, "1024 characters"},
		"stdin and secret file":    {password, []string{"--stdin", "--secret-file", "x"}, "--secret-file"},
		"invalid ID":               {"", []string{"--id", "a b"}, "--id"},
		"directory does not exist": {"", []string{"--secret-file", filepath.Join(t.TempDir(), "none", "x")}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := plugintest.RunWith(t, test.stdin, append([]string{"hash"}, test.args...)...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) || strings.Contains(stderr, password) {
				t.Errorf("Exit code %d, stdout %q, stderr %q; want 1 and one line with %q", code, stdout, stderr, test.want)
			}
		})
	}
}
