package clients_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
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
	// tooWeakArgon2id is below the minimum that OWASP recommends.
	tooWeakArgon2id = "$argon2id$v=19$m=19455,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$yTXdI+mDRBb6lJxx7FkmZg0XJ+MlJqmD41Vw1gAp238"
)

func useHashes(all ...v1alpha1.HashedSecret) func(*v1alpha1.ApiClient) {
	return func(c *v1alpha1.ApiClient) { c.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: all} }
}

// Clients keep their secrets if their hashes are imported. The condition WeakHash names the secrets
// until they are replaced. The API server rejects Argon2id hashes below the minimum.
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

	rejected := install.ApiClient(team, "rejected", "imported", useHashes(v1alpha1.HashedSecret{ID: "a", Hash: tooWeakArgon2id}))
	err := inst.Env.Client.Create(t.Context(), rejected)
	if err == nil || !strings.Contains(err.Error(), "spec.secret.hashed.hash must not use less memory with Argon2id than OWASP recommends") || !strings.Contains(err.Error(), "hash the secret again") {
		t.Errorf("creating a client with a hash that is too weak: %v", err)
	}
}

// No secret with a hash below the minimum is accepted, even if a record contains one. The rest of
// the record applies: the secrets that it no longer contains are revoked.
func TestRecordWithTooWeakHash(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	strong, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := clientsecret.Hash(strong, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := install.ApiClient(team, "billing", "acme", useHashes(
		v1alpha1.HashedSecret{ID: "strong", Hash: verifier.String()}, v1alpha1.HashedSecret{ID: "imported", Hash: importedBcrypt}))
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	secrets := []*corev1.Secret{scenario.Credentials(c, strong), scenario.Credentials(c, importedSecret)}
	for _, s := range secrets {
		inst.AwaitTokens(t, s, true)
	}

	inst.StopOperator(t)
	stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: inst.RecordsNamespace, Name: scenario.RecordName(t, inst, c)}}
	install.Change(t, inst, stored, func(s *corev1.Secret) {
		s.Data[record.DataKey] = withOnlyHash(t, s.Data[record.DataKey], tooWeakArgon2id)
	})
	for _, s := range secrets {
		inst.AwaitTokens(t, s, false)
	}
	for _, s := range inst.Servers() {
		if unreadable := s.Metric(t, "realmkeeper_registry_unreadable_records"); unreadable != "0" {
			t.Errorf("%s reports %s unreadable records, want none", s.Name, unreadable)
		}
		s.KillAndRestart(t)
	}
	for _, s := range secrets {
		inst.AwaitTokens(t, s, false)
	}
	inst.StartOperator(t, "")
	for _, s := range secrets {
		inst.AwaitTokens(t, s, true)
	}
}

// withOnlyHash replaces the secrets in the JSON of a record by one with the given hash.
func withOnlyHash(t *testing.T, data []byte, hash string) []byte {
	t.Helper()
	var stored struct {
		SchemaVersion int            `json:"schemaVersion"`
		Body          map[string]any `json:"body"`
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	all, ok := stored.Body["secrets"].([]any)
	if !ok || len(all) == 0 {
		t.Fatalf("the record has no secrets")
	}
	first, ok := all[0].(map[string]any)
	if !ok {
		t.Fatalf("a secret in the record is not an object")
	}
	first["hash"] = hash
	stored.Body["secrets"] = []any{first}
	changed, err := json.Marshal(stored)
	if err != nil || bytes.Equal(changed, data) {
		t.Fatalf("the record was not changed: %v", err)
	}
	return changed
}
