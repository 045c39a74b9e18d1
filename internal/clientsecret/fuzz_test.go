package clientsecret_test

import (
	"slices"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
)

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
