package clients_test

import (
	"crypto/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const (
	importedSecret = "a test secret"
	// importedPBKDF2 was created by Ory Hydra's hasher, importedPasslib by Authelia's, and
	// importedBcrypt by bcryptjs.
	importedPBKDF2  = "$pbkdf2-sha256$i=25000,l=32$CABI/y5hPsdrC8hIVzOUWA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8"
	importedPasslib = "$pbkdf2-sha512$100000$J/03OC9B.7AM4OvoFzHZuA$lQA7QwI0V8Lo8AmtzB8LG/XU8Lj8qgTM3IF5Mb7eMZv/akJDj1cg1TaZax07LEubPWzJkOYotXyZQwk9zGztIA"
	importedBcrypt  = "$2b$08$xDY72mDg7GHRzbxh5IyHOO.qKYos615JPr2CWCVhKwLk1TENWwdGG"
)

func useHashes(all ...v1alpha1.HashedSecret) func(*v1alpha1.ApiClient) {
	return func(c *v1alpha1.ApiClient) { c.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: all} }
}

// Clients keep their secrets if their hashes are imported. The condition WeakHash names the secrets
// until they are replaced.
func testImportedHashes(t *testing.T, inst *install.Installation) {
	team := inst.Env.Namespace(t)
	inst.Create(t, install.Realm("imported"))
	for name, hash := range map[string]string{"pbkdf2": importedPBKDF2, "passlib": importedPasslib, "bcrypt": importedBcrypt} {
		c := install.ApiClient(team, name, "imported", useHashes(v1alpha1.HashedSecret{ID: "from-" + name, Hash: hash}))
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		scenario.ExpectMessage(t, c, v1alpha1.ConditionWeakHash, ": from-"+name+".", "generated secret", "Argon2id")
		inst.AwaitTokens(t, scenario.Credentials(c, importedSecret), true)
		inst.AwaitTokens(t, scenario.Credentials(c, importedSecret+"s"), false)

		strong, err := clientsecret.HashArgon2id(importedSecret, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		install.Change(t, inst, c, useHashes(v1alpha1.HashedSecret{ID: "strong", Hash: strong.String()}))
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		if meta.FindStatusCondition(c.Status.Conditions, string(v1alpha1.ConditionWeakHash)) != nil {
			t.Errorf("%s has WeakHash after its hash was replaced", name)
		}
		inst.AwaitTokens(t, scenario.Credentials(c, importedSecret), true)
	}
}
