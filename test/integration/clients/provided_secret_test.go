package clients_test

import (
	"crypto/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const (
	password = "correct horse battery staple"
	changed  = "Tr0ub4dor&3 and some more"
)

// The client waits until the provided Secret exists and has the label. Changes to its value take
// effect.
func TestProvidedSecret(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	early := install.ApiClient(team, "early", "acme", scenario.UseProvidedSecret)
	inst.Create(t, early)
	inst.AwaitReady(t, early, metav1.ConditionFalse, v1beta1.ReasonSecretNotFound)
	if records := scenario.Records(t, inst); len(records) != 1 {
		t.Errorf("there are %d records, want only the realm's, because no secret may be generated", len(records))
	}
	secret := scenario.ProvidedSecret(team, password)
	inst.Create(t, secret)
	c := install.ApiClient(team, "billing", "acme", scenario.UseProvidedSecret)
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonSecretNotLabeled)

	label := func(s *corev1.Secret) {
		s.Labels = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}
	}
	install.Change(t, inst, secret, label)
	for _, c := range []*v1beta1.ApiClient{c, early} {
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
		inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	}
	for value, want := range map[string]v1beta1.ConditionReason{
		"too short": v1beta1.ReasonSecretTooShort, password + "\n": v1beta1.ReasonSecretNotUsable,
	} {
		install.Change(t, inst, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(value) })
		inst.AwaitReady(t, c, metav1.ConditionFalse, want)
		inst.AwaitTokens(t, scenario.Credentials(c, password), false)
	}
	install.Change(t, inst, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(changed) })
	inst.AwaitTokens(t, scenario.Credentials(c, changed), true)
	inst.AwaitTokens(t, scenario.Credentials(c, password), false)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	before := c.Status.Secrets()

	// The hash doesn't change after a restart or if anything except the value changes.
	install.Change(t, inst, secret, func(s *corev1.Secret) { s.Annotations = map[string]string{"a": "b"} })
	inst.StopOperator(t)
	inst.StartOperator(t, "")
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Description = "Changed." })
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	if len(before) != 1 || len(c.Status.Secrets()) != 1 || before[0].Name != c.Status.Secrets()[0].Name {
		t.Errorf("the secret changed from %v to %v although its value did not", before, c.Status.Secrets())
	}

	inst.Delete(t, secret)
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonSecretNotFound)
	inst.AwaitTokens(t, scenario.Credentials(c, changed), false)
}

// The spec's hashes define which secrets are valid.
func testHashedSecret(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("hashed"))
	strong, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(id, secret string, by func(string) (clientsecret.Verifier, error)) v1beta1.HashedSecret {
		verifier, err := by(secret)
		if err != nil {
			t.Fatal(err)
		}
		return v1beta1.HashedSecret{ID: id, Hash: verifier.String()}
	}
	strongHash := hash("2026-03", strong, func(s string) (clientsecret.Verifier, error) { return clientsecret.Hash(s, rand.Reader) })
	weakHash := hash("2026-04", password, func(s string) (clientsecret.Verifier, error) { return clientsecret.HashArgon2id(s, rand.Reader) })
	hashes := func(all ...v1beta1.HashedSecret) func(*v1beta1.ApiClient) {
		return func(c *v1beta1.ApiClient) { c.Spec.Secret = &v1beta1.ClientSecretSource{Hashed: all} }
	}

	c := install.ApiClient(team, "billing", "hashed", hashes(strongHash))
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	inst.AwaitTokens(t, scenario.Credentials(c, strong), true)
	install.Change(t, inst, c, hashes(strongHash, weakHash))
	inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	inst.AwaitTokens(t, scenario.Credentials(c, strong), true)
	install.Change(t, inst, c, hashes(weakHash))
	inst.AwaitTokens(t, scenario.Credentials(c, strong), false)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	if got := c.Status.Secrets(); len(got) != 1 || got[0].Name != "2026-04" || c.Status.SecretName != "" {
		t.Errorf("status has secrets %v and secretName %q, want only 2026-04 and no secretName", got, c.Status.SecretName)
	}

	// A hash in a Secret, which can change.
	inSecret := scenario.ProvidedSecret(team, strongHash.Hash)
	inSecret.Name = "hashes"
	inst.Create(t, inSecret)
	ref := v1beta1.HashSecretReference{Name: inSecret.Name, Key: "PASSWORD"}
	install.Change(t, inst, c, hashes(v1beta1.HashedSecret{ID: "2026-03", HashSecretRef: ref}))
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonSecretNotLabeled)
	install.Change(t, inst, inSecret, func(s *corev1.Secret) {
		s.Labels = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}
	})
	inst.AwaitTokens(t, scenario.Credentials(c, strong), true)
	inst.AwaitTokens(t, scenario.Credentials(c, password), false)
	install.Change(t, inst, inSecret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(weakHash.Hash) })
	inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	inst.AwaitTokens(t, scenario.Credentials(c, strong), false)

	install.Change(t, inst, c, hashes(v1beta1.HashedSecret{ID: "a", Hash: "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA"}))
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonHashNotSupported)
	inst.AwaitTokens(t, scenario.Credentials(c, password), false)
	weakHash.ExpirationTime = &metav1.Time{Time: time.Now().Add(-time.Minute)}
	install.Change(t, inst, c, hashes(weakHash))
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonExpired)
	inst.AwaitTokens(t, scenario.Credentials(c, password), false)
}

// A client can switch to a different kind of secret. The credentials Secret is deleted when the
// generated secret expires. No other Secret is deleted.
func testMigrationToProvidedSecret(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	_, c := scenario.NewClient(t, inst, "migration")
	credentials := inst.CredentialsSecret(t, c)
	secret := scenario.ProvidedSecret(c.Namespace, password)
	secret.Labels = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}
	inst.Create(t, secret)

	install.Change(t, inst, c, func(c *v1beta1.ApiClient) {
		scenario.UseProvidedSecret(c)
		c.Spec.Secret.Provided.Overlap = &v1beta1.Duration{Duration: 5 * time.Second}
	})
	inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	install.Eventually(t, "the credentials Secret to be deleted", func() error {
		return install.NotFound(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(credentials), &corev1.Secret{}))
	})
	inst.AwaitTokens(t, credentials, false)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || c.Status.SecretName != "" {
		t.Errorf("reading the provided Secret returned %v, and status has secretName %q, want none", err, c.Status.SecretName)
	}

	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Secret = install.GeneratedSecret() })
	next := inst.CredentialsSecret(t, c)
	inst.AwaitTokens(t, next, true)
	inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	inst.AwaitTokens(t, credentials, false)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
}
