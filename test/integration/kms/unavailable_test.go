package kms_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// While the plugin is unavailable, token servers sign from memory, a restarted one waits, and the
// operator generates no keys, also after a restart. When the plugin is back, everything continues.
func TestPluginUnavailable(t *testing.T) {
	inst, plugin := startEncrypted(t, 2)
	serving, restarted := inst.Servers()[0], inst.Servers()[1]
	acme, c := scenario.NewClient(t, inst, "acme")
	awaitEncrypted(t, inst, "", acme)
	expectPlaces(t, inst, privateMembers(t, inst, plugin, acme))
	clients := startLoad(t, inst, c, serving)

	plugin.Kill(t)
	restarted.KillAndRestart(t)
	awaitNotReady(t, restarted, "waiting for the KMS plugin to decrypt signing keys of 1 realms")
	expectNoToken(t, inst, restarted, c)
	before, err := recordOf(t, inst, acme)
	if err != nil {
		t.Fatal(err)
	}
	inst.KillAndRestartOperator(t)
	requestRotation(t, inst, acme)
	created := install.Realm("created")
	inst.Create(t, created)
	awaitKeysEncrypted(t, inst, v1alpha1.ReasonKMSUnavailable, acme, created)
	inst.AwaitReady(t, acme, metav1.ConditionTrue, v1alpha1.ReasonReady)
	inst.AwaitReady(t, created, metav1.ConditionFalse, v1alpha1.ReasonKMSUnavailable)
	after, err := recordOf(t, inst, acme)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(keysJSON(t, before), keysJSON(t, after)) {
		t.Error("the keys of the realm changed while the plugin was unavailable")
	}
	if _, err := recordOf(t, inst, created); install.NotFound(err) != nil {
		t.Errorf("the record of a new realm: %v", err)
	}
	clients.expectNoFailures(t)

	plugin.Restart(t)
	restarted.AwaitReady(t)
	inst.AwaitReady(t, created, metav1.ConditionTrue, v1alpha1.ReasonReady)
	awaitRotated(t, inst, acme)
	awaitEncrypted(t, inst, "", acme, created)
	awaitKeysEncrypted(t, inst, v1alpha1.ReasonKeysEncrypted, acme, created)
	scenario.AwaitUsable(t, inst, c)
	clients.expectNoFailures(t)
}

// awaitNotReady waits until a running token server isn't ready for the given reason.
func awaitNotReady(t *testing.T, s *install.TokenServer, reason string) {
	t.Helper()
	install.Eventually(t, s.Name+" to wait", func() error {
		if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), reason) {
			return fmt.Errorf("its readiness is %w, want %q", err, reason)
		}
		return nil
	})
}

// expectNoToken checks that a token server asks the client to try again later.
func expectNoToken(t *testing.T, inst *install.Installation, s *install.TokenServer, c *v1alpha1.ApiClient) {
	t.Helper()
	a, err := install.RequestToken(t, s, s.Client(t), inst.CredentialsSecret(t, c))
	if err != nil || a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Description, "signing key") {
		t.Errorf("%s responded with %+v, %v, want 503", s.Name, a, err)
	}
}
