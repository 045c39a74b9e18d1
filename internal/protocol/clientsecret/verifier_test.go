package clientsecret_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/crypto/bcrypt"
	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

func hash(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	return testkit.Value(clientsecret.Hash(secret, rand.Reader))(t)
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

func TestVerifyHMAC(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	expiring := func(secret string, at time.Time) clientsecret.Stored {
		return clientsecret.Stored{Verifier: hash(t, secret), ExpiresAt: at}
	}
	permanent := func(secret string) clientsecret.Stored { return expiring(secret, time.Time{}) }
	all := []clientsecret.Stored{permanent("first"), permanent("second"), permanent("third")}
	rotated := []clientsecret.Stored{expiring("old", now.Add(time.Second)), permanent("new")}
	expired := []clientsecret.Stored{expiring("old", now), expiring("older", now.Add(-time.Hour)), permanent("new")}
	tests := map[string]struct {
		credentials []clientsecret.Stored
		secret      string
		want        bool
	}{
		"first secret":                    {all, "first", true},
		"last secret":                     {all, "third", true},
		"unknown secret":                  {all, "fourth", false},
		"no verifiers, empty secret":      {nil, "", false},
		"zero verifier":                   {make([]clientsecret.Stored, 1), "", false},
		"old secret before it expires":    {rotated, "old", true},
		"old secret at its expiration":    {expired, "old", false},
		"Argon2id and HMAC":               {[]clientsecret.Stored{{Verifier: hashArgon2id(t, "human")}, permanent("new")}, "new", true},
		"only Argon2id":                   {[]clientsecret.Stored{{Verifier: hashArgon2id(t, "human")}}, "human", false},
		"same secret expired and current": {[]clientsecret.Stored{expiring("same", now), permanent("same")}, "same", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := clientsecret.VerifyHMAC(tc.credentials, tc.secret, now)
			if (got != nil) != tc.want {
				t.Errorf("accepted: %t, want %t", got != nil, tc.want)
			}
			if got != nil && (!got.Unexpired(now) || !got.Verifier.Verify(tc.secret)) {
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
	)
	tests := map[string]parseTest{
		"valid":                        {phc: good},
		"plaintext secret":             {"rk_secret", clientsecret.ErrHashFormat},
		"trailing line break":          {good + "\n", clientsecret.ErrHashFormat},
		"empty mac":                    {"$hmac-sha256$" + salt + "$", clientsecret.ErrHashFormat},
		"short salt":                   {"$hmac-sha256$" + shorter + "$" + mac, clientsecret.ErrHashFormat},
		"short mac":                    {good[:len(good)-2], clientsecret.ErrHashFormat},
		"nonzero trailing bits of mac": {good[:len(good)-1] + "B", clientsecret.ErrHashFormat},
		"other HMAC":                   {"$hmac-sha512$" + salt + "$" + mac, clientsecret.ErrHashScheme},
		"scheme in upper case":         {strings.ToUpper(good), clientsecret.ErrHashScheme},
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
			testkit.Diff(t, "error", tc.wantErr, err, cmpopts.EquateErrors())
			if err == nil && verifier.String() != tc.phc {
				t.Errorf("String() = %s, want %s", verifier, tc.phc)
			}
			if err != nil && (verifier != clientsecret.Verifier{}) {
				t.Errorf("rejected the hash but returned %s", verifier)
			}
		})
	}
}

// importedHashes were created by other implementations.
var importedHashes = map[string]struct {
	phc, secret string
	wantWeak    bool
}{
	// argon2-cffi uses the reference implementation by the Argon2 authors.
	"argon2-cffi": {phc: "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc", secret: "password"},

	"Ory Hydra, PBKDF2 with SHA-256": {"$pbkdf2-sha256$i=25000,l=32$CABI/y5hPsdrC8hIVzOUWA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8", "a test secret", true},
	"Ory Hydra, PBKDF2 with SHA-512": {"$pbkdf2-sha512$i=25000,l=64$FLZMb78Ha7s60/X5xLrdbA$uQH0vUB7grH1mYcdE6VYetyvrldjlGm1ha+ejtsiaoe0nJWVVAIMePK72PsWlYzqRnVBTQ2ocusjvn+K4q72qg", "a test secret", true},
	"Ory Hydra, bcrypt":              {"$2a$10$h/vMEcfRsL1quToB0WOkP.//nK60HSOhbTlyEbO8FUFFRAXu6MpTG", "a test secret", true},
	"Authelia, PBKDF2 with SHA-512":  {"$pbkdf2-sha512$100000$J/03OC9B.7AM4OvoFzHZuA$lQA7QwI0V8Lo8AmtzB8LG/XU8Lj8qgTM3IF5Mb7eMZv/akJDj1cg1TaZax07LEubPWzJkOYotXyZQwk9zGztIA", "a test secret", true},
	"passlib":                        {"$pbkdf2-sha256$29000$N2YMIWQsBWBMae09x1jrPQ$1t8iyB2A.WF/Z5JZv.lfCIhXXN33N23OSgQYThBYRfk", "toomanysecrets", true},
	// Django stores pbkdf2_sha256$100000$x9Kq2LmZrT4vWb8NcYdE1f$154eQ6qIdKDAAzRSzOVUMf1rYSaeWc4WfY/WwEqBN5w=
	"Django, as the documentation says": {"$pbkdf2-sha256$i=100000$eDlLcTJMbVpyVDR2V2I4TmNZZEUxZg$154eQ6qIdKDAAzRSzOVUMf1rYSaeWc4WfY/WwEqBN5w", "a test secret", true},
	"bcryptjs":                          {"$2b$08$xDY72mDg7GHRzbxh5IyHOO.qKYos615JPr2CWCVhKwLk1TENWwdGG", "a test secret", true},
	"htpasswd":                          {"$2y$08$ump2Vhf3HCrzJubwiz2hUuGQEuFE0odWN3VjfvjEKdwY/Q.gA.IlC", "a test secret", true},
}

func TestVerifyHashesOfOtherImplementations(t *testing.T) {
	for name, tc := range importedHashes {
		t.Run(name, func(t *testing.T) {
			verifier := testkit.Value(clientsecret.ParseVerifier(tc.phc))(t)
			if !verifier.Verify(tc.secret) {
				t.Error("rejected the correct secret")
			}
			// A secret doesn't end at a NUL, as it does in implementations in C.
			for _, wrong := range []string{tc.secret + " ", tc.secret + "\x00", tc.secret + "\x00" + tc.secret} {
				if verifier.Verify(wrong) {
					t.Errorf("accepted %q", wrong)
				}
			}
			testkit.Diff(t, "String()", tc.phc, verifier.String())
			if !verifier.IsSlow() || verifier.IsWeak() != tc.wantWeak || verifier.Memory() == 0 || tc.wantWeak && verifier.Memory() > 64<<10 {
				t.Errorf("IsSlow() = %t, IsWeak() = %t, Memory() = %d", verifier.IsSlow(), verifier.IsWeak(), verifier.Memory())
			}
			if credentials := []clientsecret.Stored{{Verifier: verifier}}; clientsecret.VerifyHMAC(credentials, tc.secret, time.Now()) != nil {
				t.Error("verified as an HMAC")
			}
		})
	}
}

func TestParsePBKDF2(t *testing.T) {
	encode := func(n int) string { return base64.RawStdEncoding.EncodeToString(make([]byte, n)) }
	with := func(prefix string, salt, tag int) string {
		return "$pbkdf2-" + prefix + "$" + encode(salt) + "$" + encode(tag)
	}
	valid := with("sha256$i=25000,l=32", 16, 32)
	plus, dot := strings.Repeat("+", 22), strings.Repeat(".", 22)
	plus, dot = plus[:21]+"w", dot[:21]+"w"
	testParse(t, map[string]parseTest{
		"Hydra's default":            {phc: valid},
		"least iterations":           {phc: with("sha256$i=10000,l=32", 16, 32)},
		"most iterations":            {phc: with("sha256$i=1000000,l=32", 16, 32)},
		"shortest salt and tag":      {phc: with("sha256$i=10000,l=16", 8, 16)},
		"longest salt":               {phc: with("sha512$i=10000,l=64", 64, 64)},
		"plus sign in the salt":      {phc: "$pbkdf2-sha256$i=25000$" + plus + "$" + encode(32)},
		"dot in the salt of passlib": {phc: "$pbkdf2-sha256$25000$" + dot + "$" + encode(32)},

		"too few iterations":        {with("sha256$i=9999,l=32", 16, 32), clientsecret.ErrHashTooWeak},
		"too many iterations":       {with("sha256$i=1000001,l=32", 16, 32), clientsecret.ErrHashParameters},
		"iterations of 1000 digits": {with("sha256$"+strings.Repeat("9", 1000), 16, 32), clientsecret.ErrHashFormat},
		"leading zero":              {with("sha256$025000", 16, 32), clientsecret.ErrHashFormat},
		"other length":              {with("sha256$i=25000,l=31", 16, 32), clientsecret.ErrHashFormat},
		"short salt":                {with("sha256$i=25000,l=32", 7, 32), clientsecret.ErrHashFormat},
		"long salt":                 {with("sha256$i=25000,l=32", 65, 32), clientsecret.ErrHashFormat},
		"no tag":                    {"$pbkdf2-sha256$i=25000$" + encode(16), clientsecret.ErrHashFormat},
		"short tag":                 {with("sha256$i=25000,l=15", 16, 15), clientsecret.ErrHashFormat},
		"tag longer than SHA-512":   {with("sha512$i=25000,l=65", 16, 65), clientsecret.ErrHashFormat},
		"dot in the salt":           {"$pbkdf2-sha256$i=25000$" + dot + "$" + encode(32), clientsecret.ErrHashFormat},

		// A hash has only one valid string.
		"leading zero with a name": {with("sha256$i=025000,l=32", 16, 32), clientsecret.ErrHashFormat},
		"leading zero of a length": {with("sha256$i=25000,l=032", 16, 32), clientsecret.ErrHashFormat},
		"sign":                     {with("sha256$+25000", 16, 32), clientsecret.ErrHashFormat},
		"line break in the salt":   {"$pbkdf2-sha256$i=25000$" + encode(8) + "\n" + encode(8) + "$" + encode(32), clientsecret.ErrHashFormat},
		"trailing bits in the tag": {"$pbkdf2-sha256$i=25000$" + encode(16) + "$" + encode(32)[:42] + "B", clientsecret.ErrHashFormat},
		"padding":                  {"$pbkdf2-sha256$i=25000$" + encode(16) + "$" + encode(32) + "=", clientsecret.ErrHashFormat},

		"SHA-1":  {"$pbkdf2-sha1$i=25000,l=20$" + encode(16) + "$" + encode(20), clientsecret.ErrHashScheme},
		"Django": {"pbkdf2_sha256$600000$c2FsdHNhbHQ$" + encode(32) + "=", clientsecret.ErrHashFormat},
	})
}

// The same salt and tag in another form is another string of an equal hash, so the ID is the same.
func TestPBKDF2IDsAreThoseOfTheSalt(t *testing.T) {
	ids := map[string]bool{}
	for _, phc := range []string{
		"$pbkdf2-sha256$i=25000,l=32$AAAAAAAAAAAAAAAAAAAAAA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8",
		"$pbkdf2-sha256$25000$AAAAAAAAAAAAAAAAAAAAAA$iE55mgmaFgVqcSWmP/u.VvKmN93XQOh0S5iPX5KvmM8",
		"$2b$10$......................QE5xw9/5pe8/UCvfII2V36dbQ9UyxXG",
	} {
		verifier := testkit.Value(clientsecret.ParseVerifier(phc))(t)
		ids[verifier.ID()] = true
	}
	testkit.Diff(t, "number of IDs", 1, len(ids))
}

func TestParseBcrypt(t *testing.T) {
	const (
		salt = "Io1.7xr5VRC/AFN7flWJ2."
		tag  = "QE5xw9/5pe8/UCvfII2V36dbQ9UyxXG"
	)
	testParse(t, map[string]parseTest{
		"2y":         {phc: "$2y$10$" + salt + tag},
		"least cost": {phc: "$2b$08$" + salt + tag},
		"most cost":  {phc: "$2b$12$" + salt + tag},

		"cost too small":               {"$2b$07$" + salt + tag, clientsecret.ErrHashTooWeak},
		"cost too large":               {"$2b$13$" + salt + tag, clientsecret.ErrHashParameters},
		"cost of three digits":         {"$2b$010$" + salt + tag, clientsecret.ErrHashFormat},
		"extra field":                  {"$2b$10$" + salt + tag + "$", clientsecret.ErrHashFormat},
		"short tag":                    {"$2b$10$" + salt + tag[1:], clientsecret.ErrHashFormat},
		"other alphabet":               {"$2b$10$+" + salt[1:] + tag, clientsecret.ErrHashFormat},
		"nonzero trailing bits of tag": {"$2b$10$" + salt + tag[:30] + "H", clientsecret.ErrHashFormat},

		"2x": {"$2x$10$" + salt + tag, clientsecret.ErrHashScheme},
	})
}

// bcrypt uses the first 72 bytes of a secret and a NUL. A longer secret would match a secret with
// which it shares only its beginning.
func TestBcryptNeverMatchesLongSecrets(t *testing.T) {
	longest := strings.Repeat("x", 72)
	phc := testkit.Value(bcrypt.GenerateFromPassword([]byte(longest), 8))(t)
	verifier := testkit.Value(clientsecret.ParseVerifier(string(phc)))(t)
	for secret, want := range map[string]bool{longest: true, longest[1:]: false, longest + "x": false, longest + "y": false} {
		if verifier.Verify(secret) != want {
			t.Errorf("Verify() of %d bytes = %t, want %t", len(secret), !want, want)
		}
	}
}

func hashArgon2id(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	return testkit.Value(clientsecret.HashArgon2id(secret, rand.Reader))(t)
}

func TestHashArgon2id(t *testing.T) {
	verifier := hashArgon2id(t, "correct horse battery staple")
	if !strings.HasPrefix(verifier.String(), "$argon2id$v=19$m=19456,t=2,p=1$") || !verifier.IsSlow() || verifier.IsWeak() || verifier.Memory() != 19<<20 {
		t.Errorf("verifier %s uses %d bytes", verifier, verifier.Memory())
	}
	again := testkit.Value(clientsecret.ParseVerifier(verifier.String()))(t)
	for secret, want := range map[string]bool{
		"correct horse battery staple": true, "correct horse battery stapl": false, "correct horse battery staple ": false, "": false,
	} {
		if verifier.Verify(secret) != want || again.Verify(secret) != want {
			t.Errorf("Verify(%q) = %t, and %t for the parsed verifier, want %t", secret, verifier.Verify(secret), again.Verify(secret), want)
		}
	}
	if other := hashArgon2id(t, "correct horse battery staple"); other.String() == verifier.String() || other.ID() == verifier.ID() || again.ID() != verifier.ID() {
		t.Errorf("IDs %s, %s for the parsed verifier and %s for another hash, want only the first two equal", verifier.ID(), again.ID(), other.ID())
	}
	broken := errors.New("no entropy")
	if _, err := clientsecret.HashArgon2id("secret", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	testkit.Diff(t, "Memory()", int64(19<<20), verifier.Memory())
}

func TestParseArgon2id(t *testing.T) {
	encode := func(n int) string { return base64.RawStdEncoding.EncodeToString(make([]byte, n)) }
	with := func(parameters string, salt, tag int) string {
		return "$argon2id$" + parameters + "$" + encode(salt) + "$" + encode(tag)
	}
	tests := map[string]parseTest{
		"maximum":               {phc: with("v=19$m=65536,t=4,p=4", 64, 64)},
		"minimum with 1 pass":   {phc: with("v=19$m=47104,t=1,p=1", 8, 16)},
		"minimum with 2 passes": {phc: with("v=19$m=19456,t=2,p=1", 8, 16)},
		"minimum with 3 passes": {phc: with("v=19$m=12288,t=3,p=1", 8, 16)},
		"minimum with 4 passes": {phc: with("v=19$m=9216,t=4,p=1", 8, 16)},

		"too much memory":                {with("v=19$m=65537,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"too little memory for 1 pass":   {with("v=19$m=47103,t=1,p=1", 16, 32), clientsecret.ErrHashTooWeak},
		"too little memory for 2 passes": {with("v=19$m=19455,t=2,p=1", 16, 32), clientsecret.ErrHashTooWeak},
		"too little memory for 3 passes": {with("v=19$m=12287,t=3,p=1", 16, 32), clientsecret.ErrHashTooWeak},
		"too little memory for 4 passes": {with("v=19$m=9215,t=4,p=1", 16, 32), clientsecret.ErrHashTooWeak},
		"too many passes":                {with("v=19$m=19456,t=5,p=1", 16, 32), clientsecret.ErrHashParameters},
		"no passes":                      {with("v=19$m=19456,t=0,p=1", 16, 32), clientsecret.ErrHashParameters},
		"too many lanes":                 {with("v=19$m=19456,t=2,p=5", 16, 32), clientsecret.ErrHashParameters},
		"no lanes":                       {with("v=19$m=19456,t=2,p=0", 16, 32), clientsecret.ErrHashParameters},
		"old version":                    {with("v=16$m=19456,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"no version":                     {with("m=19456,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"leading zero":                   {with("v=19$m=019456,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"short salt":                     {with("v=19$m=19456,t=2,p=1", 7, 32), clientsecret.ErrHashFormat},
		"long salt":                      {with("v=19$m=19456,t=2,p=1", 65, 32), clientsecret.ErrHashFormat},
		"short tag":                      {with("v=19$m=19456,t=2,p=1", 16, 15), clientsecret.ErrHashFormat},
		"long tag":                       {with("v=19$m=19456,t=2,p=1", 16, 65), clientsecret.ErrHashFormat},
		"trailing line break":            {with("v=19$m=19456,t=2,p=1", 16, 32) + "\n", clientsecret.ErrHashFormat},
		"argon2i":                        {"$argon2i$v=19$m=19456,t=2,p=1$" + encode(16) + "$" + encode(32), clientsecret.ErrHashScheme},
	}
	testParse(t, tests)
}

// Each verifier has only one valid string: String returns the parsed string byte for byte.
func FuzzParseVerifier(f *testing.F) {
	f.Add(hash(f, "rk_secret").String())
	f.Add("$hmac-sha256$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$AAAA")
	f.Add("$argon2id$v=19$m=65536,t=4,p=4$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=65537,t=4,p=4$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=4294967296,t=0,p=-1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$hmac-sha256$AAAAAAAAAAAAAAAAAAAA\r\n$AAAA")
	f.Add("$$$")
	for _, imported := range importedHashes {
		f.Add(imported.phc)
	}
	f.Fuzz(func(t *testing.T, phc string) {
		verifier, err := clientsecret.ParseVerifier(phc)
		if err != nil {
			// The error must not be wrapped with the input, because a malformed hash may be a
			// secret.
			known := []error{clientsecret.ErrHashFormat, clientsecret.ErrHashScheme, clientsecret.ErrHashParameters, clientsecret.ErrHashTooWeak}
			if !slices.Contains(known, err) {
				t.Fatalf("error %v is not exactly one of the four errors", err)
			}
			return
		}
		if verifier.String() != phc {
			t.Fatalf("String() = %s, want %s", verifier, phc)
		}
		if verifier.Memory() > 64<<20 {
			t.Fatalf("the verifier uses %d bytes, want at most 64 MiB", verifier.Memory())
		}
		if verifier.IsWeak() && !verifier.IsSlow() || verifier.IsSlow() != (verifier.Memory() > 0) {
			t.Fatalf("IsWeak() = %t, IsSlow() = %t, Memory() = %d", verifier.IsWeak(), verifier.IsSlow(), verifier.Memory())
		}
	})
}
