package clientsecret_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func generate(t testing.TB, random io.Reader) string {
	t.Helper()
	return testkit.Value(clientsecret.Generate(random))(t)
}

func TestGenerate(t *testing.T) {
	seen := map[string]bool{}
	for range 2000 {
		secret := generate(t, rand.Reader)
		rest, hasPrefix := strings.CutPrefix(secret, "rk_")
		if !hasPrefix || len(rest) != 43+6 || strings.Trim(rest, base62) != "" || !clientsecret.WellFormed(secret) {
			t.Fatalf("%q is not rk_ followed by 49 base62 characters with a checksum", secret)
		}
		if seen[secret] {
			t.Fatalf("generated %q twice", secret)
		}
		seen[secret] = true
	}
	broken := errors.New("no entropy")
	if secret, err := clientsecret.Generate(iotest.ErrReader(broken)); !errors.Is(err, broken) || secret != "" {
		t.Errorf("secret %q, error %v, want error %v", secret, err, broken)
	}
}

// The secret contains all 256 bits: the random bytes can be decoded from the digits.
func TestGenerateKeepsAllBits(t *testing.T) {
	tests := map[string][]byte{
		"all bits": bytes.Repeat([]byte{0xff}, 32),
		"last bit": append(make([]byte, 31), 1),
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			secret := generate(t, bytes.NewReader(want))
			n := new(big.Int)
			for _, digit := range secret[3:46] {
				n.Mul(n, big.NewInt(62)).Add(n, big.NewInt(int64(strings.IndexRune(base62, digit))))
			}
			if got := n.FillBytes(make([]byte, 32)); !bytes.Equal(got, want) {
				t.Errorf("%s contains %x, want %x", secret, got, want)
			}
		})
	}
}

func TestWellFormedRejectsEveryMutation(t *testing.T) {
	secret := generate(t, rand.Reader)
	for i := range len(secret) {
		mutated := []byte(secret)
		for b := range 256 {
			mutated[i] = byte(b)
			if got, want := clientsecret.WellFormed(string(mutated)), byte(b) == secret[i]; got != want {
				t.Errorf("WellFormed of %q with byte %d set to %q = %t, want %t", secret, i, byte(b), got, want)
			}
		}
	}
	for _, other := range []string{"", secret[1:], secret + "0"} {
		if clientsecret.WellFormed(other) {
			t.Errorf("WellFormed(%q) = true, want false", other)
		}
	}
}

func TestCheckChosen(t *testing.T) {
	tests := map[string]struct {
		secret string
		want   error
	}{
		"16 characters":       {strings.Repeat("ä", 16), nil},
		"1024 characters":     {strings.Repeat("ä", 1024), nil},
		"15 characters":       {strings.Repeat("ä", 15), clientsecret.ErrTooShort},
		"1025 characters":     {strings.Repeat("a", 1025), clientsecret.ErrNotUsable},
		"trailing line break": {"correct horse battery staple\n", clientsecret.ErrNotUsable},
		"DEL":                 {"correct horse\x7fbattery staple", clientsecret.ErrNotUsable},
		"not UTF-8":           {"correct horse\xffbattery staple", clientsecret.ErrNotUsable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := clientsecret.CheckChosen(tc.secret)
			testkit.Diff(t, "error", tc.want, err, cmpopts.EquateErrors())
			if err == nil && !oauth.ValidCredential(tc.secret) {
				t.Error("the token endpoint rejects the secret")
			}
		})
	}
}
