package clientsecret_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
)

func slowly(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	verifier, err := clientsecret.HashSlowly(secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return verifier
}

func TestHashSlowly(t *testing.T) {
	verifier := slowly(t, "correct horse battery staple")
	if !strings.HasPrefix(verifier.String(), "$argon2id$v=19$m=19456,t=2,p=1$") || !verifier.Slow() || verifier.Memory() != 19<<20 {
		t.Errorf("%s takes %d bytes", verifier, verifier.Memory())
	}
	again, err := clientsecret.ParseVerifier(verifier.String())
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]bool{
		"correct horse battery staple": true, "correct horse battery stapl": false, "correct horse battery staple ": false, "": false,
	} {
		if verifier.Verify(secret) != want || again.Verify(secret) != want {
			t.Errorf("%q is accepted: %t, and by the verifier read again: %t; want %t", secret, verifier.Verify(secret), again.Verify(secret), want)
		}
	}
	if other := slowly(t, "correct horse battery staple"); other.String() == verifier.String() || other.ID() == verifier.ID() || again.ID() != verifier.ID() {
		t.Errorf("ids %s, %s and, read again, %s", verifier.ID(), other.ID(), again.ID())
	}
	broken := errors.New("no entropy")
	if _, err := clientsecret.HashSlowly("secret", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	if verifier.Memory() != clientsecret.DefaultArgon2idMemory {
		t.Errorf("Memory() = %d, want %d", verifier.Memory(), clientsecret.DefaultArgon2idMemory)
	}
}

// Made by the reference implementation of the Argon2 authors, and with salt and tag of other lengths.
func TestVerifyHashesOfOthers(t *testing.T) {
	for name, phc := range map[string]string{
		"argon2-cffi": "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
	} {
		t.Run(name, func(t *testing.T) {
			verifier, err := clientsecret.ParseVerifier(phc)
			if err != nil {
				t.Fatal(err)
			}
			if !verifier.Verify("password") || verifier.Verify("passwore") {
				t.Error("it doesn't verify the one password that it is of")
			}
		})
	}
}

func TestParseArgon2id(t *testing.T) {
	encode := func(n int) string { return base64.RawStdEncoding.EncodeToString(make([]byte, n)) }
	with := func(parameters string, salt, tag int) string {
		return "$argon2id$" + parameters + "$" + encode(salt) + "$" + encode(tag)
	}
	tests := map[string]struct {
		phc     string
		wantErr error
	}{
		"ours":                    {phc: with("v=19$m=19456,t=2,p=1", 16, 32)},
		"the most":                {phc: with("v=19$m=65536,t=4,p=4", 64, 64)},
		"the least":               {phc: with("v=19$m=8,t=1,p=1", 8, 16)},
		"the least of four lanes": {phc: with("v=19$m=32,t=1,p=4", 8, 16)},

		"too much memory":            {with("v=19$m=65537,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"memory of all machines":     {with("v=19$m=999999999,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"too little memory":          {with("v=19$m=7,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"too little for four lanes":  {with("v=19$m=31,t=2,p=4", 16, 32), clientsecret.ErrHashParameters},
		"no memory":                  {with("v=19$m=0,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"too many passes":            {with("v=19$m=19456,t=5,p=1", 16, 32), clientsecret.ErrHashParameters},
		"no pass":                    {with("v=19$m=19456,t=0,p=1", 16, 32), clientsecret.ErrHashParameters},
		"too many lanes":             {with("v=19$m=19456,t=2,p=5", 16, 32), clientsecret.ErrHashParameters},
		"lanes that wrap to one":     {with("v=19$m=19456,t=2,p=257", 16, 32), clientsecret.ErrHashParameters},
		"no lane":                    {with("v=19$m=19456,t=2,p=0", 16, 32), clientsecret.ErrHashParameters},
		"the version before":         {with("v=16$m=19456,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"no version":                 {with("m=19456,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"a number beyond 32 bits":    {with("v=19$m=4294967304,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"a number of thousand digit": {with("v=19$m="+strings.Repeat("9", 1000)+",t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"a negative number":          {with("v=19$m=-8,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"a plus sign":                {with("v=19$m=+19456,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"a leading zero":             {with("v=19$m=019456,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"a space":                    {with("v=19$m=19456, t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"another order":              {with("v=19$t=2,m=19456,p=1", 16, 32), clientsecret.ErrHashFormat},
		"a parameter less":           {with("v=19$m=19456,t=2", 16, 32), clientsecret.ErrHashFormat},
		"a parameter more":           {with("v=19$m=19456,t=2,p=1,keyid=a", 16, 32), clientsecret.ErrHashFormat},
		"a parameter twice":          {with("v=19$m=8,m=19456,p=1", 16, 32), clientsecret.ErrHashFormat},
		"no parameters":              {with("v=19$", 16, 32), clientsecret.ErrHashFormat},
		"a short salt":               {with("v=19$m=19456,t=2,p=1", 7, 32), clientsecret.ErrHashFormat},
		"a long salt":                {with("v=19$m=19456,t=2,p=1", 65, 32), clientsecret.ErrHashFormat},
		"a short tag":                {with("v=19$m=19456,t=2,p=1", 16, 15), clientsecret.ErrHashFormat},
		"a long tag":                 {with("v=19$m=19456,t=2,p=1", 16, 65), clientsecret.ErrHashFormat},
		"a huge tag":                 {with("v=19$m=19456,t=2,p=1", 16, 1<<20), clientsecret.ErrHashFormat},
		"no tag":                     {"$argon2id$v=19$m=19456,t=2,p=1$" + encode(16), clientsecret.ErrHashFormat},
		"a field more":               {with("v=19$m=19456,t=2,p=1", 16, 32) + "$", clientsecret.ErrHashFormat},
		"padding":                    {with("v=19$m=19456,t=2,p=1", 16, 32) + "=", clientsecret.ErrHashFormat},
		"a line break after it":      {with("v=19$m=19456,t=2,p=1", 16, 32) + "\n", clientsecret.ErrHashFormat},
		"argon2i":                    {"$argon2i$v=19$m=19456,t=2,p=1$" + encode(16) + "$" + encode(32), clientsecret.ErrHashScheme},
		"argon2d":                    {"$argon2d$v=19$m=19456,t=2,p=1$" + encode(16) + "$" + encode(32), clientsecret.ErrHashScheme},
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

func BenchmarkVerifySlowly(b *testing.B) {
	verifier := slowly(b, "correct horse battery staple")
	for b.Loop() {
		verifier.Verify("wrong")
	}
}
