//go:build nightly

package kms_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/kmsplugin"
	"github.com/realmkeeper/realmkeeper/test/framework/load"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An installation with private keys in plaintext enables encryption, rotates the key encryption key, and
// disables encryption again. Each time, a rotation of all signing keys replaces the ones in the old form.
// Clients continuously request tokens, and no request fails.
func TestEncryptionIsEnabledRotatedAndDisabled(t *testing.T) {
	cluster := env.Start(t)
	kms, user := kmsplugin.Start(t), plugin.NewUser(cluster)
	inst := install.New(t, cluster, install.Settings{SpeedUp: speedUp})
	inst.StartOperator(t, "")
	inst.KMSSocket = kms.Socket
	rolledOut := inst.StartTokenServer(t)
	acme, c := scenario.NewClient(t, inst, "acme")
	rsa := install.Realm("rsa", func(r *v1beta1.Realm) { r.Spec.Signing.Algorithm = "RS256" })
	inst.Create(t, rsa)
	inst.AwaitReady(t, rsa, metav1.ConditionTrue, v1beta1.ReasonReady)
	realms := []*v1beta1.Realm{acme, rsa}
	awaitPlaintext(t, inst, realms...)
	before := append(privateMembers(t, inst, kms, acme), privateMembers(t, inst, kms, rsa)...)
	expectPlaces(t, inst, before, placesOfPlaintext(t, inst, realms)...) // the search works

	clients := startLoad(t, inst, c, rolledOut)
	reconfigure(t, inst, encryption)
	awaitKeysEncrypted(t, inst, v1beta1.ReasonRotationRequired, realms...)
	scenario.ExpectMessage(t, acme, v1beta1.ConditionKeysEncrypted, "kubectl realmkeeper rotate --all")
	rotateAll(t, inst, user, realms...)
	awaitEncrypted(t, inst, "", realms...)
	awaitKeysEncrypted(t, inst, v1beta1.ReasonKeysEncrypted, realms...)
	awaitNone(t, rolledOut.SnapshotDir, before)
	expectPlaces(t, inst, append(before, privateMembers(t, inst, kms, acme)...))

	id := kms.Rotate(t)
	rotateAll(t, inst, user, realms...)
	awaitEncrypted(t, inst, id, realms...)
	kms.Prune(t)                           // nothing needs the previous key encryption key
	inst.StartTokenServer(t).AwaitReady(t) // decrypts all keys
	scenario.AwaitUsable(t, inst, c)
	expectPlaces(t, inst, privateMembers(t, inst, kms, acme))

	reconfigure(t, inst, install.Settings{SpeedUp: speedUp, KeyEncryption: true, Decrypt: true})
	awaitKeysEncrypted(t, inst, v1beta1.ReasonRotationRequired, realms...)
	rotateAll(t, inst, user, realms...)
	awaitPlaintext(t, inst, realms...)
	awaitKeysEncrypted(t, inst, v1beta1.ReasonEncryptionDisabled, realms...)
	kms.Kill(t)
	inst.KMSSocket = ""
	reconfigure(t, inst, install.Settings{SpeedUp: speedUp})
	rotateAll(t, inst, user, realms...)
	inst.StartTokenServer(t)
	scenario.AwaitUsable(t, inst, c)
	clients.expectNoFailures(t)
}

// rotateAll rotates the signing keys of all realms with the kubectl plugin, and waits until the new keys
// sign.
func rotateAll(t *testing.T, inst *install.Installation, user *plugin.User, realms ...*v1beta1.Realm) {
	t.Helper()
	user.Succeeds(t, "rotate", "--all")
	for _, realm := range realms {
		awaitRotated(t, inst, realm)
	}
}

// placesOfPlaintext are the places that contain private keys without encryption.
func placesOfPlaintext(t *testing.T, inst *install.Installation, realms []*v1beta1.Realm) (places []string) {
	t.Helper()
	for _, s := range inst.Servers() {
		places = append(places, "snapshot of "+s.Name)
	}
	for _, realm := range realms {
		secret, err := recordOf(t, inst, realm)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, "Secret "+secret.Namespace+"/"+secret.Name)
	}
	return places
}

// reconfigure restarts the operator with other settings, like a rollout.
func reconfigure(t *testing.T, inst *install.Installation, s install.Settings) {
	t.Helper()
	inst.StopOperator(t)
	inst.Configure(t, s)
	inst.StartOperator(t, "")
}

// awaitRotated waits until the requested rotation of the signing key is complete.
func awaitRotated(t *testing.T, inst *install.Installation, realm *v1beta1.Realm) {
	t.Helper()
	install.Eventually(t, "the rotation of the signing key", func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		for _, key := range realm.Status.SigningKeys {
			if key.State == v1beta1.SigningKeyActive && !key.CreationTime.Before(realm.Spec.Signing.RotationRequestTime) {
				return nil
			}
		}
		return fmt.Errorf("the keys are %+v", realm.Status.SigningKeys)
	})
}

// clientLoad is a load on token servers.
type clientLoad struct{ *load.Load }

func startLoad(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient, servers ...*install.TokenServer) clientLoad {
	t.Helper()
	credentials := inst.CredentialsSecret(t, c)
	return clientLoad{load.Start(t, load.Options{
		Servers: servers, Workers: 4, PerSecond: 20, Credentials: func() *corev1.Secret { return credentials },
	})}
}

// expectNoFailures checks that tokens were issued and that no request has failed so far.
func (l clientLoad) expectNoFailures(t *testing.T) {
	t.Helper()
	r := l.Result()
	if r.Failed > 0 || r.Tokens == 0 {
		t.Errorf("%d tokens issued with %d keys; %d requests failed; first failures: %q", r.Tokens, len(r.Keys), r.Failed, r.Failures)
	}
	t.Logf("%d tokens issued with %d keys", r.Tokens, len(r.Keys))
}

// awaitKeysEncrypted waits until the condition KeysEncrypted of the realms has a reason.
func awaitKeysEncrypted(t *testing.T, inst *install.Installation, reason v1beta1.ConditionReason, realms ...*v1beta1.Realm) {
	t.Helper()
	for _, realm := range realms {
		install.Eventually(t, fmt.Sprintf("the reason %s of %s", reason, realm.Name), func() error {
			if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
				return err
			}
			c := meta.FindStatusCondition(realm.Status.Conditions, string(v1beta1.ConditionKeysEncrypted))
			if c == nil || c.Reason != string(reason) {
				return fmt.Errorf("the condition is %+v", c)
			}
			if want := reason == v1beta1.ReasonKeysEncrypted; (c.Status == metav1.ConditionTrue) != want {
				t.Errorf("the condition has the reason %s and the status %s", c.Reason, c.Status)
			}
			return nil
		})
	}
}
