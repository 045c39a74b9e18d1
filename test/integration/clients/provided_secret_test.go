package clients_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

const (
	password = "correct horse battery staple"
	changed  = "Tr0ub4dor&3 and some more"
)

// A provided secret is waited for, taken up when it is there and may be read, and again
// with each change; its plain text stays where it is.
func TestProvidedSecret(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	early := install.ApiClient(team, "early", "acme", scenario.UseProvidedSecret)
	inst.Create(t, early)
	inst.AwaitReady(t, early, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	if records := scenario.Records(t, inst); len(records) != 1 {
		t.Errorf("%d records, want that of the realm alone: nothing is generated", len(records))
	}
	secret := scenario.ProvidedSecret(team, password)
	inst.Create(t, secret)
	c := install.ApiClient(team, "billing", "acme", scenario.UseProvidedSecret)
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonSecretNotLabelled)

	label := func(s *corev1.Secret) {
		s.Labels = map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}
	}
	install.Change(t, inst, secret, label)
	for _, c := range []*v1alpha1.ApiClient{c, early} {
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	}
	for value, want := range map[string]v1alpha1.ConditionReason{
		"too short": v1alpha1.ReasonSecretTooShort, password + "\n": v1alpha1.ReasonSecretNotUsable,
	} {
		install.Change(t, inst, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(value) })
		inst.AwaitReady(t, c, metav1.ConditionFalse, want)
		inst.AwaitTokens(t, scenario.Credentials(c, password), false)
	}
	install.Change(t, inst, secret, func(s *corev1.Secret) { s.Data["PASSWORD"] = []byte(changed) })
	inst.AwaitTokens(t, scenario.Credentials(c, changed), true)
	inst.AwaitTokens(t, scenario.Credentials(c, password), false)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	before := c.Status.Secrets

	// What isn't the value makes no new hash, nor does a restart.
	install.Change(t, inst, secret, func(s *corev1.Secret) { s.Annotations = map[string]string{"a": "b"} })
	inst.StopOperator(t)
	inst.StartOperator(t, "")
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Description = "Seen again." })
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if len(before) != 1 || len(c.Status.Secrets) != 1 || before[0].ID != c.Status.Secrets[0].ID {
		t.Errorf("the secret was %v, and without a change of its value it is %v", before, c.Status.Secrets)
	}
	plaintextOnlyIn(t, inst, team, changed, "Secret vault")

	inst.Delete(t, secret)
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	inst.AwaitTokens(t, scenario.Credentials(c, changed), false)
}

// The hashes in a spec are the secrets that are valid, and no plain text enters the cluster.
func TestHashedSecret(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
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
	slow := hash("2026-04", password, func(s string) (clientsecret.Verifier, error) { return clientsecret.HashArgon2id(s, rand.Reader) })
	hashes := func(all ...v1alpha1.HashedSecret) func(*v1alpha1.ApiClient) {
		return func(c *v1alpha1.ApiClient) { c.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: all} }
	}

	c := install.ApiClient(team, "billing", "acme", hashes(fast))
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	inst.AwaitTokens(t, scenario.Credentials(c, machine), true)
	install.Change(t, inst, c, hashes(fast, slow))
	inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	inst.AwaitTokens(t, scenario.Credentials(c, machine), true)
	install.Change(t, inst, c, hashes(slow))
	inst.AwaitTokens(t, scenario.Credentials(c, machine), false)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if got := c.Status.Secrets; len(got) != 1 || got[0].ID != "2026-04" || c.Status.SecretName != "" {
		t.Errorf("status tells of %v and the Secret %q", got, c.Status.SecretName)
	}
	plaintextOnlyIn(t, inst, team, password)
	plaintextOnlyIn(t, inst, team, machine)

	install.Change(t, inst, c, hashes(v1alpha1.HashedSecret{ID: "a", Hash: "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA"}))
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonHashNotSupported)
	inst.AwaitTokens(t, scenario.Credentials(c, password), false)
	slow.ExpiresAt = &metav1.Time{Time: time.Now().Add(-time.Minute)}
	install.Change(t, inst, c, hashes(slow))
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonExpired)
	inst.AwaitTokens(t, scenario.Credentials(c, password), false)
}

// Where a client's secret comes from may change. The consumer Secret goes when what it holds
// is valid no longer, and only that one.
func TestSecretFromElsewhere(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)
	secret := scenario.ProvidedSecret(c.Namespace, password)
	secret.Labels = map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}
	inst.Create(t, secret)

	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) {
		scenario.UseProvidedSecret(c)
		c.Spec.Secret.Provided.Overlap = &metav1.Duration{Duration: 5 * time.Second}
	})
	inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	install.Eventually(t, "the consumer Secret to be gone", func() error {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(credentials), &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading it gives %v", err)
	})
	inst.AwaitTokens(t, credentials, false)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || c.Status.SecretName != "" {
		t.Errorf("the provided Secret: %v, secretName in status: %q", err, c.Status.SecretName)
	}
	if got := inst.OperatorMetric(t, `realmkeeper_swept_total{kind="consumer_secret"}`); got != "1" {
		t.Errorf("the operator counts %q consumer Secrets without need", got)
	}

	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Secret = nil })
	fresh := inst.CredentialsSecret(t, c)
	inst.AwaitTokens(t, fresh, true) // at once: it was waited for
	inst.AwaitTokens(t, scenario.Credentials(c, password), true)
	inst.AwaitTokens(t, credentials, false)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// plaintextOnlyIn looks for a secret in all that the operator writes, and in its log.
func plaintextOnlyIn(t *testing.T, inst *install.Installation, team, plaintext string, allowed ...string) {
	t.Helper()
	for name, content := range scenario.StateOf(t, inst, team) {
		if strings.Contains(content, plaintext) && !strings.Contains(strings.Join(allowed, ","), strings.ReplaceAll(name, "TEAM/", "")) {
			t.Errorf("%s holds the plain text", name)
		}
	}
	if bytes.Contains(inst.OperatorLog(t), []byte(plaintext)) {
		t.Error("the operator's log holds the plain text")
	}
}
