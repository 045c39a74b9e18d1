package clientsecret_test

import (
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

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

// A secret doesn't end at a NUL, as it does in implementations in C.
func TestNULDoesNotEndSecret(t *testing.T) {
	for _, name := range []string{"bcryptjs", "passlib"} {
		verifier := testkit.Value(clientsecret.ParseVerifier(importedHashes[name].phc))(t)
		secret := importedHashes[name].secret
		for _, wrong := range []string{secret + "\x00", secret + "\x00" + secret} {
			if verifier.Verify(wrong) {
				t.Errorf("%s: accepted %q", name, wrong)
			}
		}
	}
}

func TestVerifyHashesOfOtherImplementations(t *testing.T) {
	for name, tc := range importedHashes {
		t.Run(name, func(t *testing.T) {
			verifier := testkit.Value(clientsecret.ParseVerifier(tc.phc))(t)
			if !verifier.Verify(tc.secret) {
				t.Error("rejected the correct secret")
			}
			if verifier.Verify(tc.secret + " ") {
				t.Error("accepted a wrong secret")
			}
			if verifier.String() != tc.phc {
				t.Errorf("String() = %s, want %s", verifier, tc.phc)
			}
			if !verifier.IsSlow() || verifier.IsWeak() != tc.wantWeak || verifier.Memory() == 0 || tc.wantWeak && verifier.Memory() > 64<<10 {
				t.Errorf("IsSlow() = %t, IsWeak() = %t, Memory() = %d", verifier.IsSlow(), verifier.IsWeak(), verifier.Memory())
			}
			if credentials := []clientsecret.Credential{{Verifier: verifier}}; clientsecret.VerifyHMAC(credentials, tc.secret, time.Now()) != nil {
				t.Error("verified as an HMAC")
			}
		})
	}
}
