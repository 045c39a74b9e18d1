package kms_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A key that the KMS can't decrypt stops only its realm. The log of the token server names it, and a
// rotation replaces it.
func TestKeyThatCannotBeDecrypted(t *testing.T) {
	inst, _ := startEncrypted(t, 1)
	server := inst.Servers()[0]
	acme, c := scenario.NewClient(t, inst, "acme")
	other, stranger := scenario.NewClient(t, inst, "other")
	inst.StopOperator(t)
	original, err := recordOf(t, inst, other)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := keysOf(t, inst, other)
	if err != nil {
		t.Fatal(err)
	}
	const lost = "a-key-that-was-deleted"
	replaceKeys(t, inst, original, bytes.ReplaceAll(keysJSON(t, original), []byte(keys[0].Sealed().KeyID), []byte(lost)))
	server.KillAndRestart(t)
	awaitMetric(t, server, "realmkeeper_realms_without_signing_key", "1")
	expectNoToken(t, inst, server, stranger)
	scenario.AwaitUsable(t, inst, c)
	for _, name := range []string{other.Name, keys[0].ID, lost} {
		if !bytes.Contains(inst.Log(t, server), []byte(name)) {
			t.Errorf("the log of the token server does not name %s", name)
		}
	}

	inst.StartOperator(t, "")
	requestRotation(t, inst, other)
	awaitRotated(t, inst, other)
	inst.AwaitTokens(t, inst.CredentialsSecret(t, stranger), true)
	awaitKeysEncrypted(t, inst, v1alpha1.ReasonKeysEncrypted, acme, other)
}

// keysJSON returns the keys in a record.
func keysJSON(t *testing.T, secret *corev1.Secret) []byte {
	t.Helper()
	var content struct {
		Body struct{ Keys json.RawMessage }
	}
	if err := json.Unmarshal(secret.Data[record.DataKey], &content); err != nil {
		t.Fatal(err)
	}
	return content.Body.Keys
}

// replaceKeys overwrites the keys in a record.
func replaceKeys(t *testing.T, inst *install.Installation, secret *corev1.Secret, keys []byte) {
	t.Helper()
	changed := bytes.Replace(secret.Data[record.DataKey], keysJSON(t, secret), keys, 1)
	install.Change(t, inst, secret.DeepCopy(), func(s *corev1.Secret) { s.Data[record.DataKey] = changed })
}

// expectNextKeyWaitsFor checks that the next key of a realm doesn't become active while a live token
// server, which the condition names, hasn't decrypted it.
func expectNextKeyWaitsFor(t *testing.T, inst *install.Installation, realm *v1alpha1.Realm, s *install.TokenServer) {
	t.Helper()
	install.Eventually(t, "the condition to name "+s.Name, func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		if message := scenario.ConditionMessage(t, realm, v1alpha1.ConditionKeysEncrypted); !strings.Contains(message, "These have not: "+s.Name+".") {
			return fmt.Errorf("it is %q", message)
		}
		return nil
	})
	keys, err := keysOf(t, inst, realm)
	if err != nil {
		t.Fatal(err)
	}
	if next := keys[len(keys)-1]; next.State != signingkey.Pending || !next.PublishedAt.IsZero() {
		t.Errorf("the next key is %s, published at %s", next.State, next.PublishedAt)
	}
}

func awaitMetric(t *testing.T, s *install.TokenServer, name, want string) {
	t.Helper()
	install.Eventually(t, name+" to be "+want, func() error {
		if got := s.Metric(t, name); got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// Without the configuration of the plugin, encrypted keys are kept and the realm says what is missing.
// A token server without it keeps the next key from becoming active. Invalid settings are named.
func TestConfigurationErrors(t *testing.T) {
	inst, plugin := startEncrypted(t, 1)
	server := inst.Servers()[0]
	acme, c := scenario.NewClient(t, inst, "acme")

	inst.KMSSocket = ""
	reconfigure(t, inst, install.Settings{SpeedUp: speedUp})
	awaitKeysEncrypted(t, inst, v1alpha1.ReasonKMSNotConfigured, acme)
	scenario.ExpectMessage(t, acme, v1alpha1.ConditionKeysEncrypted, "keyEncryption.kms")
	requestRotation(t, inst, acme)
	unable := inst.LaunchTokenServer(t, "")
	awaitNotReady(t, unable, "--kms-socket is not set")
	awaitEncrypted(t, inst, "", acme)

	inst.KMSSocket = plugin.Socket
	reconfigure(t, inst, encryption)
	awaitKeysEncrypted(t, inst, v1alpha1.ReasonKeysEncrypted, acme)
	expectNextKeyWaitsFor(t, inst, acme, unable)
	unable.Terminate(t)
	awaitRotated(t, inst, acme)
	if a, err := install.RequestToken(t, server, server.Client(t), inst.CredentialsSecret(t, c)); err != nil || a.Status != http.StatusOK {
		t.Errorf("the client got %+v, %v", a, err)
	}

	inst.StopOperator(t)
	inst.Configure(t, install.Settings{KeyEncryption: true, KMSTimeout: "1h"})
	inst.StartOperator(t, "")
	if line := inst.OperatorRefusal(t); !strings.Contains(line, "keyEncryption.kms.timeout must be between 100ms and 30s") {
		t.Errorf("the operator exited with %q", line)
	}
}
