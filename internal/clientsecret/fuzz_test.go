package clientsecret_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

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

// PBKDF2 hashes are accepted only in the three forms, with the bounds that the documentation names.
func FuzzParsePBKDF2(f *testing.F) {
	salt, tag := make([]byte, 16), make([]byte, 32)
	for _, parameters := range []string{"i=10000,l=32", "i=9999,l=32", "i=1000000", "1000001", "025000", "i=25000,l=31", "i=+25000", "l=32,i=25000"} {
		f.Add("sha256", parameters, salt, tag)
		f.Add("sha512", parameters, salt[:8], append(tag, tag...))
	}
	f.Add("sha1", "i=25000", salt, tag[:20])
	f.Add("sha256", "i=25000", salt[:7], tag[:15])
	digests := map[string]int{"sha256": 32, "sha512": 64}
	form := regexp.MustCompile(`^(?:i=([1-9][0-9]{0,8})(?:,l=([1-9][0-9]?))?|([1-9][0-9]{0,8}))$`)
	f.Fuzz(func(t *testing.T, digest, parameters string, salt, tag []byte) {
		encode := base64.RawStdEncoding.EncodeToString
		match := form.FindStringSubmatch(parameters)
		if len(match) > 3 && match[3] != "" {
			encode = func(b []byte) string {
				return strings.ReplaceAll(base64.RawStdEncoding.EncodeToString(b), "+", ".")
			}
		}
		want := match != nil && len(salt) >= 8 && len(salt) <= 64 && len(tag) >= 16 && len(tag) <= digests[digest]
		if want {
			iterations, _ := strconv.Atoi(match[1] + match[3])
			want = iterations >= 10_000 && iterations <= 1_000_000 && (match[2] == "" || match[2] == strconv.Itoa(len(tag)))
		}
		phc := fmt.Sprintf("$pbkdf2-%s$%s$%s$%s", digest, parameters, encode(salt), encode(tag))
		verifier, err := clientsecret.ParseVerifier(phc)
		if (err == nil) != want || want && (verifier.String() != phc || !verifier.IsWeak()) {
			t.Fatalf("%s: error %v, verifier %s, want accepted: %t", phc, err, verifier, want)
		}
	})
}

// bcrypt hashes are accepted only in canonical form: the unused bits at the end of salt and tag are
// zero. The bcrypt package agrees on the cost.
func FuzzParseBcrypt(f *testing.F) {
	const tail = "Io1.7xr5VRC/AFN7flWJ2.QE5xw9/5pe8/UCvfII2V36dbQ9UyxXG"
	for _, prefix := range []string{"2a$10$", "2b$08$", "2y$12$", "2x$10$", "2b$07$", "2b$13$", "2b$8$", "2$10$", "2b$+9$"} {
		f.Add(prefix + tail)
	}
	f.Add("2b$10$" + tail[:21] + "/" + tail[22:])
	f.Add("2b$10$" + tail[:len(tail)-1] + "H")
	canonical := regexp.MustCompile(`^2[aby]\$(?:08|09|10|11|12)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{30}[.CGKOSWaeimquy26]$`)
	f.Fuzz(func(t *testing.T, rest string) {
		if strings.HasPrefix(rest, "hmac-") || strings.HasPrefix(rest, "argon2id") || strings.HasPrefix(rest, "pbkdf2") {
			return
		}
		phc := "$" + rest
		verifier, err := clientsecret.ParseVerifier(phc)
		if want := canonical.MatchString(rest); (err == nil) != want {
			t.Fatalf("%s: error %v, want accepted: %t", phc, err, want)
		}
		if err != nil {
			return
		}
		if cost, err := bcrypt.Cost([]byte(phc)); err != nil || cost < 8 || cost > 12 || verifier.String() != phc || !verifier.IsWeak() {
			t.Fatalf("%s: cost %d, error %v, verifier %s", phc, cost, err, verifier)
		}
	})
}
