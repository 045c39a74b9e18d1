package clientsecret_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func hash(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	verifier := testkit.Value(clientsecret.Hash(secret, rand.Reader))(t)
	return verifier
}

// The hash is HMAC-SHA-256 with the salt as the key, for secrets of any length.
func TestHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		salt := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "salt")
		secret := string(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "secret"))
		verifier := testkit.Value(clientsecret.Hash(secret, bytes.NewReader(salt)))(t)
		mac := hmac.New(sha256.New, salt)
		mac.Write([]byte(secret))
		want := "$hmac-sha256$" + base64.RawStdEncoding.EncodeToString(salt) + "$" + base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
		if got := verifier.String(); got != want {
			t.Fatalf("hash %s, want %s", got, want)
		}
	})
	broken := errors.New("no entropy")
	if _, err := clientsecret.Hash("rk_secret", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestVerifierDoesNotContainSecret(t *testing.T) {
	verifier := hash(t, "rk_secret")
	if strings.Contains(fmt.Sprintf("%+v %#v %s", verifier, verifier, verifier.ID()), "rk_secret") {
		t.Error("the formatted verifier contains the secret")
	}
}

func TestHashIsSalted(t *testing.T) {
	a, b := hash(t, "rk_secret"), hash(t, "rk_secret")
	if a.String() == b.String() || a.ID() == b.ID() {
		t.Error("hashing a secret twice returned the same verifier")
	}
	again := testkit.Value(clientsecret.ParseVerifier(a.String()))(t)
	if again.ID() != a.ID() {
		t.Errorf("ID %s after parsing, want %s", again.ID(), a.ID())
	}
}

func TestVerify(t *testing.T) {
	secret := generate(t, rand.Reader)
	verifier := hash(t, secret)
	if !verifier.Verify(secret) {
		t.Error("rejected the correct secret")
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

func TestVerifyHMAC(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	expiring := func(secret string, at time.Time) clientsecret.Credential {
		return clientsecret.Credential{Verifier: hash(t, secret), ExpiresAt: at}
	}
	permanent := func(secret string) clientsecret.Credential { return expiring(secret, time.Time{}) }
	all := []clientsecret.Credential{permanent("first"), permanent("second"), permanent("third")}
	rotated := []clientsecret.Credential{expiring("old", now.Add(time.Second)), permanent("new")}
	expired := []clientsecret.Credential{expiring("old", now), expiring("older", now.Add(-time.Hour)), permanent("new")}
	tests := map[string]struct {
		credentials []clientsecret.Credential
		secret      string
		want        bool
	}{
		"first secret":                      {all, "first", true},
		"second secret":                     {all, "second", true},
		"last secret":                       {all, "third", true},
		"same verifier twice":               {[]clientsecret.Credential{all[0], all[0]}, "first", true},
		"two verifiers of one secret":       {[]clientsecret.Credential{all[0], permanent("first")}, "first", true},
		"only secret":                       {all[:1], "first", true},
		"unknown secret":                    {all, "fourth", false},
		"empty secret":                      {all, "", false},
		"no verifiers":                      {nil, "first", false},
		"no verifiers, empty secret":        {nil, "", false},
		"zero verifier":                     {make([]clientsecret.Credential, 1), "", false},
		"removed secret":                    {all[1:], "first", false},
		"old secret before it expires":      {rotated, "old", true},
		"new secret before the old expires": {rotated, "new", true},
		"old secret at its expiration":      {expired, "old", false},
		"old secret after its expiration":   {expired, "older", false},
		"new secret after the old expired":  {expired, "new", true},
		"Argon2id and HMAC":                 {[]clientsecret.Credential{{Verifier: hashArgon2id(t, "human")}, permanent("new")}, "new", true},
		"only Argon2id":                     {[]clientsecret.Credential{{Verifier: hashArgon2id(t, "human")}}, "human", false},
		"same secret expired and current":   {[]clientsecret.Credential{expiring("same", now), permanent("same")}, "same", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := clientsecret.VerifyHMAC(tc.credentials, tc.secret, now)
			if (got != nil) != tc.want {
				t.Errorf("accepted: %t, want %t", got != nil, tc.want)
			}
			if got != nil && (!got.Current(now) || !got.Verifier.Verify(tc.secret)) {
				t.Error("returned a credential that does not accept the secret")
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
	tests := map[string]parseTest{
		"valid":                         {phc: good},
		"empty":                         {"", clientsecret.ErrHashFormat},
		"plaintext secret":              {"rk_secret", clientsecret.ErrHashFormat},
		"trailing line break":           {good + "\n", clientsecret.ErrHashFormat},
		"no mac":                        {"$hmac-sha256$" + salt, clientsecret.ErrHashFormat},
		"empty mac":                     {"$hmac-sha256$" + salt + "$", clientsecret.ErrHashFormat},
		"extra field":                   {good + "$", clientsecret.ErrHashFormat},
		"parameters":                    {"$hmac-sha256$v=1$" + salt + "$" + mac, clientsecret.ErrHashFormat},
		"short salt":                    {"$hmac-sha256$" + shorter + "$" + mac, clientsecret.ErrHashFormat},
		"long salt":                     {"$hmac-sha256$" + longer + "$" + mac, clientsecret.ErrHashFormat},
		"short mac":                     {good[:len(good)-2], clientsecret.ErrHashFormat},
		"long mac":                      {good + "A", clientsecret.ErrHashFormat},
		"padded":                        {"$hmac-sha256$" + salt + "==$" + mac + "=", clientsecret.ErrHashFormat},
		"Base64url alphabet":            {"$hmac-sha256$" + "_" + salt[1:] + "$" + mac, clientsecret.ErrHashFormat},
		"nonzero trailing bits of salt": {"$hmac-sha256$" + salt[:21] + "B$" + mac, clientsecret.ErrHashFormat},
		"nonzero trailing bits of mac":  {good[:len(good)-1] + "B", clientsecret.ErrHashFormat},
		"other HMAC":                    {"$hmac-sha512$" + salt + "$" + mac, clientsecret.ErrHashScheme},
		"scheme in upper case":          {strings.ToUpper(good), clientsecret.ErrHashScheme},
	}
	testParse(t, tests)
}

type parseTest struct {
	phc     string
	wantErr error
}

// testParse parses each hash. An accepted one must be the string of its verifier.
func testParse(t *testing.T, tests map[string]parseTest) {
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			verifier, err := clientsecret.ParseVerifier(tc.phc)
			if !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
			}
			if err == nil && verifier.String() != tc.phc {
				t.Errorf("String() = %s, want %s", verifier, tc.phc)
			}
			if err != nil && (verifier != clientsecret.Verifier{}) {
				t.Errorf("rejected the hash but returned %s", verifier)
			}
		})
	}
}
