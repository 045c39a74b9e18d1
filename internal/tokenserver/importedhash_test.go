package tokenserver_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Clients whose hashes come from another system get tokens.
func TestImportedHashes(t *testing.T) {
	const importedSecret = "a test secret"
	s := startLoaded(t)
	s.registry.SetRealm(newRealm(t, "imported", nil))
	imported := func(phc string) clientsecret.Credential {
		verifier, err := clientsecret.ParseVerifier(phc)
		if err != nil {
			t.Fatal(err)
		}
		return clientsecret.Credential{Verifier: verifier}
	}
	hydra := imported("$pbkdf2-sha256$i=25000,l=32$CABI/y5hPsdrC8hIVzOUWA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8")
	authelia := imported("$pbkdf2-sha512$100000$J/03OC9B.7AM4OvoFzHZuA$lQA7QwI0V8Lo8AmtzB8LG/XU8Lj8qgTM3IF5Mb7eMZv/akJDj1cg1TaZax07LEubPWzJkOYotXyZQwk9zGztIA")
	bcrypt := imported("$2b$08$xDY72mDg7GHRzbxh5IyHOO.qKYos615JPr2CWCVhKwLk1TENWwdGG")
	for id, change := range map[string]func(*registry.Client){
		"hydra":          withSecrets(hydra),
		"authelia":       withSecrets(authelia),
		"bcrypt":         withSecrets(bcrypt),
		"bcrypt-strong":  withSecrets(bcrypt, clientsecret.Credential{Verifier: argon2idHash(t, password)}),
		"bcrypt-hmac":    withSecrets(append(credentials(t, secret, now.AddDate(1, 0, 0)), bcrypt)...),
		"bcrypt-expired": withSecrets(clientsecret.Credential{Verifier: bcrypt.Verifier, ExpiresAt: now}),
		"bcrypt-disabled": func(c *registry.Client) {
			withSecrets(bcrypt)(c)
			c.Disabled = true
		},
	} {
		s.registry.SetClient(newClient(t, "imported", id, change))
	}
	client := s.clientOf(t, "HTTP/2")
	for name, test := range map[string]struct {
		id, secret string
		want       int
	}{
		"PBKDF2 with SHA-256":              {"hydra", importedSecret, 200},
		"PBKDF2 with SHA-256, wrong":       {"hydra", "a test secreT", 401},
		"PBKDF2 with SHA-512":              {"authelia", importedSecret, 200},
		"PBKDF2 with SHA-512, wrong":       {"authelia", "a test", 401},
		"bcrypt":                           {"bcrypt", importedSecret, 200},
		"bcrypt, wrong":                    {"bcrypt", "A test secret", 401},
		"bcrypt beside Argon2id":           {"bcrypt-strong", importedSecret, 200},
		"Argon2id beside bcrypt":           {"bcrypt-strong", password, 200},
		"wrong for both":                   {"bcrypt-strong", newPassword, 401},
		"bcrypt beside HMAC":               {"bcrypt-hmac", importedSecret, 200},
		"HMAC beside bcrypt":               {"bcrypt-hmac", secret, 200},
		"expired":                          {"bcrypt-expired", importedSecret, 401},
		"disabled client":                  {"bcrypt-disabled", importedSecret, 401},
		"the hash itself as the secret":    {"bcrypt", bcrypt.Verifier.String(), 401},
		"the secret of another, with HMAC": {"bcrypt", secret, 401},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // on the second attempt, a correct secret is remembered
				r := request{path: "/imported/oauth2/token", query: grant, authorization: basic(test.id, test.secret)}
				a := s.send(t, client, r)
				// The client pauses after wrong secrets, for longer with the race detector.
				for retries := 0; a.status == 503 && retries < 10; retries++ {
					a = s.send(t, client, r)
				}
				if a.status != test.want {
					t.Errorf("got %d %s, want %d", a.status, a.body, test.want)
				}
			}
		})
	}
}
