package clientsecret_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func hashArgon2id(t testing.TB, secret string) clientsecret.Verifier {
	t.Helper()
	verifier := testkit.Value(clientsecret.HashArgon2id(secret, rand.Reader))(t)
	return verifier
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
	if verifier.Memory() != clientsecret.DefaultArgon2idMemory {
		t.Errorf("Memory() = %d, want %d", verifier.Memory(), clientsecret.DefaultArgon2idMemory)
	}
}

func TestParseArgon2id(t *testing.T) {
	encode := func(n int) string { return base64.RawStdEncoding.EncodeToString(make([]byte, n)) }
	with := func(parameters string, salt, tag int) string {
		return "$argon2id$" + parameters + "$" + encode(salt) + "$" + encode(tag)
	}
	tests := map[string]parseTest{
		"default parameters":     {phc: with("v=19$m=19456,t=2,p=1", 16, 32)},
		"maximum":                {phc: with("v=19$m=65536,t=4,p=4", 64, 64)},
		"minimum with 1 pass":    {phc: with("v=19$m=47104,t=1,p=1", 8, 16)},
		"minimum with 2 passes":  {phc: with("v=19$m=19456,t=2,p=1", 8, 16)},
		"minimum with 3 passes":  {phc: with("v=19$m=12288,t=3,p=1", 8, 16)},
		"minimum with 4 passes":  {phc: with("v=19$m=9216,t=4,p=1", 8, 16)},
		"minimum for four lanes": {phc: with("v=19$m=9216,t=4,p=4", 8, 16)},

		"too much memory":                  {with("v=19$m=65537,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"too little memory for 1 pass":     {with("v=19$m=47103,t=1,p=1", 16, 32), clientsecret.ErrHashTooWeak},
		"too little memory for 2 passes":   {with("v=19$m=19455,t=2,p=1", 16, 32), clientsecret.ErrHashTooWeak},
		"too little memory for 3 passes":   {with("v=19$m=12287,t=3,p=1", 16, 32), clientsecret.ErrHashTooWeak},
		"too little memory for 4 passes":   {with("v=19$m=9215,t=4,p=1", 16, 32), clientsecret.ErrHashTooWeak},
		"too little memory for four lanes": {with("v=19$m=19455,t=2,p=4", 16, 32), clientsecret.ErrHashTooWeak},
		"too many passes":                  {with("v=19$m=19456,t=5,p=1", 16, 32), clientsecret.ErrHashParameters},
		"no passes":                        {with("v=19$m=19456,t=0,p=1", 16, 32), clientsecret.ErrHashParameters},
		"too many lanes":                   {with("v=19$m=19456,t=2,p=5", 16, 32), clientsecret.ErrHashParameters},
		"lanes overflow to one":            {with("v=19$m=19456,t=2,p=257", 16, 32), clientsecret.ErrHashParameters},
		"no lanes":                         {with("v=19$m=19456,t=2,p=0", 16, 32), clientsecret.ErrHashParameters},
		"old version":                      {with("v=16$m=19456,t=2,p=1", 16, 32), clientsecret.ErrHashParameters},
		"no version":                       {with("m=19456,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"number of 1000 digits":            {with("v=19$m="+strings.Repeat("9", 1000)+",t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"leading zero":                     {with("v=19$m=019456,t=2,p=1", 16, 32), clientsecret.ErrHashFormat},
		"wrong order":                      {with("v=19$t=2,m=19456,p=1", 16, 32), clientsecret.ErrHashFormat},
		"extra parameter":                  {with("v=19$m=19456,t=2,p=1,keyid=a", 16, 32), clientsecret.ErrHashFormat},
		"short salt":                       {with("v=19$m=19456,t=2,p=1", 7, 32), clientsecret.ErrHashFormat},
		"long salt":                        {with("v=19$m=19456,t=2,p=1", 65, 32), clientsecret.ErrHashFormat},
		"short tag":                        {with("v=19$m=19456,t=2,p=1", 16, 15), clientsecret.ErrHashFormat},
		"long tag":                         {with("v=19$m=19456,t=2,p=1", 16, 65), clientsecret.ErrHashFormat},
		"trailing line break":              {with("v=19$m=19456,t=2,p=1", 16, 32) + "\n", clientsecret.ErrHashFormat},
		"argon2i":                          {"$argon2i$v=19$m=19456,t=2,p=1$" + encode(16) + "$" + encode(32), clientsecret.ErrHashScheme},
	}
	testParse(t, tests)
}
