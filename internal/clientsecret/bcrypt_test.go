package clientsecret_test

import (
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func TestParseBcrypt(t *testing.T) {
	const (
		salt = "Io1.7xr5VRC/AFN7flWJ2."
		tag  = "QE5xw9/5pe8/UCvfII2V36dbQ9UyxXG"
	)
	testParse(t, map[string]parseTest{
		"2a":         {phc: "$2a$10$" + salt + tag},
		"2b":         {phc: "$2b$10$" + salt + tag},
		"2y":         {phc: "$2y$10$" + salt + tag},
		"least cost": {phc: "$2b$08$" + salt + tag},
		"most cost":  {phc: "$2b$12$" + salt + tag},

		"cost too small":                {"$2b$07$" + salt + tag, clientsecret.ErrHashTooWeak},
		"cost too large":                {"$2b$13$" + salt + tag, clientsecret.ErrHashParameters},
		"cost of one digit":             {"$2b$8$" + salt + tag, clientsecret.ErrHashFormat},
		"cost of three digits":          {"$2b$010$" + salt + tag, clientsecret.ErrHashFormat},
		"short tag":                     {"$2b$10$" + salt + tag[1:], clientsecret.ErrHashFormat},
		"long tag":                      {"$2b$10$" + salt + tag + ".", clientsecret.ErrHashFormat},
		"salt only":                     {"$2b$10$" + salt, clientsecret.ErrHashFormat},
		"extra field":                   {"$2b$10$" + salt + tag + "$", clientsecret.ErrHashFormat},
		"other alphabet":                {"$2b$10$+" + salt[1:] + tag, clientsecret.ErrHashFormat},
		"padding":                       {"$2b$10$" + salt + tag[:30] + "=", clientsecret.ErrHashFormat},
		"nonzero trailing bits of salt": {"$2b$10$" + salt[:21] + "/" + tag, clientsecret.ErrHashFormat},
		"nonzero trailing bits of tag":  {"$2b$10$" + salt + tag[:30] + "H", clientsecret.ErrHashFormat},

		"2x":                   {"$2x$10$" + salt + tag, clientsecret.ErrHashScheme},
		"2":                    {"$2$10$" + salt + tag, clientsecret.ErrHashScheme},
		"PHC format":           {"$bcrypt$v=98$r=10$" + salt + "$" + tag, clientsecret.ErrHashScheme},
		"scheme in upper case": {"$2B$10$" + salt + tag, clientsecret.ErrHashScheme},
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
