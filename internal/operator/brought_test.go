package operator_test

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

const (
	password = "correct horse battery staple"
	changed  = "Tr0ub4dor&3 and some more"
)

// with is what a consumer Secret would hold for a client whose secret came from elsewhere.
func with(c *v1alpha1.ApiClient, secret string) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		v1alpha1.SecretKeyTokenURL: []byte(c.Status.TokenEndpoint), v1alpha1.SecretKeyClientID: []byte(c.Status.ClientID),
		v1alpha1.SecretKeyClientSecret: []byte(secret),
	}}
}

func vault(namespace, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vault"},
		Data:       map[string][]byte{"PASSWORD": []byte(value)},
	}
}

func fromVault(c *v1alpha1.ApiClient) {
	c.Spec.Secret = &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{
		SecretRef: v1alpha1.SecretKeyReference{Name: "vault", Key: "PASSWORD"},
	}}
}

// A provided secret is waited for, taken up when it is there and may be read, and again
// with each change; its plain text stays where it is.
func TestProvidedSecret(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	team := env.Namespace(t)
	install.Create(t, testinstall.Realm("acme"))
	early := testinstall.ApiClient(team, "early", "acme", fromVault)
	install.Create(t, early)
	install.AwaitReady(t, early, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	if records := recordsOf(t, install); len(records) != 1 {
		t.Errorf("%d records, want that of the realm alone: nothing is generated", len(records))
	}
	secret := vault(team, password)
	install.Create(t, secret)
	c := testinstall.ApiClient(team, "billing", "acme", fromVault)
	install.Create(t, c)
	install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonSecretNotLabelled)

	label := func(s *corev1.Secret) {
		s.Labels = map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}
	}
	testinstall.Change(t, install, secret, label)
	for _, c := range []*v1alpha1.ApiClient{c, early} {
		install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		install.AwaitTokens(t, with(c, password), true)
	}
	for value, want := range map[string]v1alpha1.ConditionReason{
		"too short": v1alpha1.ReasonSecretTooShort, password + "\n": v1alpha1.ReasonSecretNotUsable,
	} {
		testinstall.Change(t, install, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(value) })
		install.AwaitReady(t, c, metav1.ConditionFalse, want)
		install.AwaitTokens(t, with(c, password), false)
	}
	testinstall.Change(t, install, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(changed) })
	install.AwaitTokens(t, with(c, changed), true)
	install.AwaitTokens(t, with(c, password), false)
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	before := c.Status.Secrets

	// What isn't the value makes no new hash, nor does a restart.
	testinstall.Change(t, install, secret, func(s *corev1.Secret) { s.Annotations = map[string]string{"a": "b"} })
	install.StopOperator(t)
	install.StartOperator(t, "")
	testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Description = "Seen again." })
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if len(before) != 1 || len(c.Status.Secrets) != 1 || before[0].ID != c.Status.Secrets[0].ID {
		t.Errorf("the secret was %v, and without a change of its value it is %v", before, c.Status.Secrets)
	}
	plaintextOnlyIn(t, install, team, changed, "Secret vault")

	install.Delete(t, secret)
	install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	install.AwaitTokens(t, with(c, changed), false)
}

// The hashes in a spec are the secrets that are valid, and no plain text enters the cluster.
func TestHashedSecret(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	team := env.Namespace(t)
	install.Create(t, testinstall.Realm("acme"))
	machine, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(id, secret string, by func(string) (clientsecret.Verifier, error)) v1alpha1.HashedSecret {
		verifier, err := by(secret)
		if err != nil {
			t.Fatal(err)
		}
		return v1alpha1.HashedSecret{ID: id, Hash: verifier.String()}
	}
	fast := hash("2026-03", machine, func(s string) (clientsecret.Verifier, error) { return clientsecret.Hash(s, rand.Reader) })
	slow := hash("2026-04", password, func(s string) (clientsecret.Verifier, error) { return clientsecret.HashSlowly(s, rand.Reader) })
	hashes := func(all ...v1alpha1.HashedSecret) func(*v1alpha1.ApiClient) {
		return func(c *v1alpha1.ApiClient) { c.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: all} }
	}

	c := testinstall.ApiClient(team, "billing", "acme", hashes(fast))
	install.Create(t, c)
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	install.AwaitTokens(t, with(c, machine), true)
	testinstall.Change(t, install, c, hashes(fast, slow))
	install.AwaitTokens(t, with(c, password), true)
	install.AwaitTokens(t, with(c, machine), true)
	testinstall.Change(t, install, c, hashes(slow))
	install.AwaitTokens(t, with(c, machine), false)
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if got := c.Status.Secrets; len(got) != 1 || got[0].ID != "2026-04" || c.Status.SecretName != "" {
		t.Errorf("status tells of %v and the Secret %q", got, c.Status.SecretName)
	}
	plaintextOnlyIn(t, install, team, password)
	plaintextOnlyIn(t, install, team, machine)

	testinstall.Change(t, install, c, hashes(v1alpha1.HashedSecret{ID: "a", Hash: "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA"}))
	install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonHashNotSupported)
	install.AwaitTokens(t, with(c, password), false)
	slow.ExpiresAt = &metav1.Time{Time: time.Now().Add(-time.Minute)}
	testinstall.Change(t, install, c, hashes(slow))
	install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonExpired)
	install.AwaitTokens(t, with(c, password), false)
}

// Where a client's secret comes from may change. The consumer Secret goes when what it holds
// is valid no longer, and only that one.
func TestSecretFromElsewhere(t *testing.T) {
	env := testenv.Start(t)
	install, _, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)
	secret := vault(c.Namespace, password)
	secret.Labels = map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}
	install.Create(t, secret)

	testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) {
		fromVault(c)
		c.Spec.Secret.Provided.Overlap = &metav1.Duration{Duration: 5 * time.Second}
	})
	install.AwaitTokens(t, with(c, password), true)
	testinstall.Eventually(t, "the consumer Secret to be gone", func() error {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(consumer), &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errorf("reading it gives %v", err)
	})
	install.AwaitTokens(t, consumer, false)
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || c.Status.SecretName != "" {
		t.Errorf("the provided Secret: %v, secretName in status: %q", err, c.Status.SecretName)
	}
	if got := install.OperatorMetric(t, `realmkeeper_swept_total{kind="consumer_secret"}`); got != "1" {
		t.Errorf("the operator counts %q consumer Secrets without need", got)
	}

	testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Secret = nil })
	fresh := install.ConsumerSecret(t, c)
	install.AwaitTokens(t, fresh, true) // at once: it was waited for
	install.AwaitTokens(t, with(c, password), true)
	install.AwaitTokens(t, consumer, false)
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// plaintextOnlyIn looks for a secret in all that the operator writes, and in its log.
func plaintextOnlyIn(t *testing.T, install *testinstall.Installation, team, plaintext string, allowed ...string) {
	t.Helper()
	for name, content := range stateOf(t, install, team) {
		if strings.Contains(content, plaintext) && !strings.Contains(strings.Join(allowed, ","), strings.ReplaceAll(name, "TEAM/", "")) {
			t.Errorf("%s holds the plain text", name)
		}
	}
	if bytes.Contains(install.OperatorLog(t), []byte(plaintext)) {
		t.Error("the operator's log holds the plain text")
	}
}
