package clientsecret_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
)

func hash(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	verifier, err := clientsecret.Hash(secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return verifier
}

// The hash is what anyone can compute: HMAC-SHA-256 with the salt as key, of secrets of any length.
func TestHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		salt := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "salt")
		secret := string(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "secret"))
		verifier, err := clientsecret.Hash(secret, bytes.NewReader(salt))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, salt)
		mac.Write([]byte(secret))
		want := "$hmac-sha256$" + base64.RawStdEncoding.EncodeToString(salt) + "$" + base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
		if got := verifier.String(); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
	broken := errors.New("no entropy")
	if _, err := clientsecret.Hash("rk_secret", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

func TestVerifierDoesNotHoldTheSecret(t *testing.T) {
	verifier := hash(t, "rk_secret")
	if strings.Contains(fmt.Sprintf("%+v %#v %s", verifier, verifier, verifier.ID()), "rk_secret") {
		t.Error("it does")
	}
}

func TestHashIsSalted(t *testing.T) {
	a, b := hash(t, "rk_secret"), hash(t, "rk_secret")
	if a.String() == b.String() || a.ID() == b.ID() {
		t.Error("one secret hashed twice gives the same verifier")
	}
	again, err := clientsecret.ParseVerifier(a.String())
	if err != nil {
		t.Fatal(err)
	}
	if again.ID() != a.ID() {
		t.Errorf("id %s after reading it again, want %s", again.ID(), a.ID())
	}
}

func TestVerify(t *testing.T) {
	secret := generate(t, rand.Reader)
	verifier := hash(t, secret)
	if !verifier.Verify(secret) {
		t.Error("the secret is refused")
	}
	for i := range len(secret) {
		mutated := []byte(secret)
		mutated[i] ^= 1
		if verifier.Verify(string(mutated)) {
			t.Errorf("accepted %q for %q", mutated, secret)
		}
	}
	for _, wrong := range []string{"", secret[1:], secret + "0", secret + "\x00", strings.ToUpper(secret)} {
		if verifier.Verify(wrong) {
			t.Errorf("accepted %q for %q", wrong, secret)
		}
	}
}

func TestVerifyFast(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	until := func(secret string, end time.Time) clientsecret.Credential {
		return clientsecret.Credential{Verifier: hash(t, secret), ExpiresAt: end}
	}
	forever := func(secret string) clientsecret.Credential { return until(secret, time.Time{}) }
	all := []clientsecret.Credential{forever("first"), forever("second"), forever("third")}
	rotated := []clientsecret.Credential{until("old", now.Add(time.Second)), forever("new")}
	ended := []clientsecret.Credential{until("old", now), until("older", now.Add(-time.Hour)), forever("new")}
	tests := map[string]struct {
		credentials []clientsecret.Credential
		secret      string
		want        bool
	}{
		"the first":                   {all, "first", true},
		"the second":                  {all, "second", true},
		"the last":                    {all, "third", true},
		"the same twice":              {[]clientsecret.Credential{all[0], all[0]}, "first", true},
		"two of one secret":           {[]clientsecret.Credential{all[0], forever("first")}, "first", true},
		"the only":                    {all[:1], "first", true},
		"none of them":                {all, "fourth", false},
		"no secret":                   {all, "", false},
		"no verifier":                 {nil, "first", false},
		"neither":                     {nil, "", false},
		"the zero verifier":           {make([]clientsecret.Credential, 1), "", false},
		"one that is not there":       {all[1:], "first", false},
		"the old before it ends":      {rotated, "old", true},
		"the new before the old ends": {rotated, "new", true},
		"the old at its end":          {ended, "old", false},
		"the old after its end":       {ended, "older", false},
		"the new after that":          {ended, "new", true},
		"slow beside fast":            {[]clientsecret.Credential{{Verifier: slowly(t, "slow")}, forever("new")}, "new", true},
		"slow alone":                  {[]clientsecret.Credential{{Verifier: slowly(t, "slow")}}, "slow", false},
		"ended and current alike":     {[]clientsecret.Credential{until("same", now), forever("same")}, "same", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := clientsecret.VerifyFast(tc.credentials, tc.secret, now)
			if (got != nil) != tc.want {
				t.Errorf("%t, want %t", got != nil, tc.want)
			}
			if got != nil && (!got.Current(now) || !got.Verifier.Verify(tc.secret)) {
				t.Error("another credential is said to have accepted it")
			}
		})
	}
}

func TestParseVerifier(t *testing.T) {
	var (
		salt    = strings.Repeat("A", 22)
		mac     = strings.Repeat("B", 42) + "A"
		good    = "$hmac-sha256$" + salt + "$" + mac
		shorter = base64.RawStdEncoding.EncodeToString(make([]byte, 15))
		longer  = base64.RawStdEncoding.EncodeToString(make([]byte, 17))
	)
	tests := map[string]struct {
		phc     string
		wantErr error
	}{
		"good":                          {phc: good},
		"empty":                         {"", clientsecret.ErrHashFormat},
		"a secret":                      {"rk_secret", clientsecret.ErrHashFormat},
		"separators alone":              {"$$$", clientsecret.ErrHashFormat},
		"no first separator":            {good[1:], clientsecret.ErrHashFormat},
		"something before it":           {"x" + good, clientsecret.ErrHashFormat},
		"a space before it":             {" " + good, clientsecret.ErrHashFormat},
		"a line break after it":         {good + "\n", clientsecret.ErrHashFormat},
		"no mac":                        {"$hmac-sha256$" + salt, clientsecret.ErrHashFormat},
		"an empty mac":                  {"$hmac-sha256$" + salt + "$", clientsecret.ErrHashFormat},
		"an empty salt":                 {"$hmac-sha256$$" + mac, clientsecret.ErrHashFormat},
		"a field more":                  {good + "$", clientsecret.ErrHashFormat},
		"parameters":                    {"$hmac-sha256$v=1$" + salt + "$" + mac, clientsecret.ErrHashFormat},
		"a short salt":                  {"$hmac-sha256$" + shorter + "$" + mac, clientsecret.ErrHashFormat},
		"a long salt":                   {"$hmac-sha256$" + longer + "$" + mac, clientsecret.ErrHashFormat},
		"a short mac":                   {good[:len(good)-2], clientsecret.ErrHashFormat},
		"a long mac":                    {good + "A", clientsecret.ErrHashFormat},
		"a huge mac":                    {good + strings.Repeat("A", 1<<20), clientsecret.ErrHashFormat},
		"padded":                        {"$hmac-sha256$" + salt + "==$" + mac + "=", clientsecret.ErrHashFormat},
		"the URL alphabet":              {"$hmac-sha256$" + "_" + salt[1:] + "$" + mac, clientsecret.ErrHashFormat},
		"bits beyond the last byte":     {"$hmac-sha256$" + salt[:21] + "B$" + mac, clientsecret.ErrHashFormat},
		"bits beyond the last mac byte": {good[:len(good)-1] + "B", clientsecret.ErrHashFormat},
		"a line break in the salt":      {"$hmac-sha256$\n" + salt[1:] + "$" + mac, clientsecret.ErrHashFormat},
		"line breaks beside the salt":   {"$hmac-sha256$" + salt + "\r\n$" + mac, clientsecret.ErrHashFormat},
		"bcrypt":                        {"$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", clientsecret.ErrHashScheme},
		"another HMAC":                  {"$hmac-sha512$" + salt + "$" + mac, clientsecret.ErrHashScheme},
		"the scheme in upper case":      {strings.ToUpper(good), clientsecret.ErrHashScheme},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			verifier, err := clientsecret.ParseVerifier(tc.phc)
			if !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
			}
			if err == nil && verifier.String() != tc.phc {
				t.Errorf("written again: %s, want %s", verifier, tc.phc)
			}
			if err != nil && (verifier != clientsecret.Verifier{}) {
				t.Errorf("refused, and yet it returned %s", verifier)
			}
		})
	}
}

// One verifier has one spelling: what is accepted is written again byte for byte.
func FuzzParseVerifier(f *testing.F) {
	f.Add(hash(f, "rk_secret").String())
	f.Add("$hmac-sha256$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$AAAA")
	f.Add("$argon2id$v=19$m=65536,t=4,p=4$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=65537,t=4,p=4$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=4294967296,t=0,p=-1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$hmac-sha256$AAAAAAAAAAAAAAAAAAAA\r\n$AAAA")
	f.Add("$$$")
	f.Fuzz(func(t *testing.T, phc string) {
		verifier, err := clientsecret.ParseVerifier(phc)
		if err != nil {
			// Nothing is added to them: what stands in the place of a hash may be a secret.
			if !slices.Contains([]error{clientsecret.ErrHashFormat, clientsecret.ErrHashScheme, clientsecret.ErrHashParameters}, err) {
				t.Fatalf("error %v is none of the three", err)
			}
			return
		}
		if verifier.String() != phc {
			t.Fatalf("written again: %s, want %s", verifier, phc)
		}
		if verifier.Memory() > 64<<20 {
			t.Fatalf("it takes %d bytes", verifier.Memory())
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	secret := generate(b, rand.Reader)
	verifier := hash(b, secret)
	b.ReportAllocs()
	for b.Loop() {
		if !verifier.Verify(secret) {
			b.Fatal("the verifier rejects its own secret")
		}
	}
}
