//go:build nightly

package kms_test

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/kmsplugin"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A backup with encrypted keys is restored with the same KMS: the keys stay encrypted as they are, and
// tokens and secrets stay valid. After the KMS has lost the key, a rotation replaces the signing key, and
// tokens and secrets still stay valid.
func TestRestoreEncryptedBackup(t *testing.T) {
	cluster := env.Start(t)
	kms, user := kmsplugin.Start(t), plugin.NewUser(cluster)
	inst := install.New(t, cluster, install.Settings{SpeedUp: speedUp, KeyEncryption: true})
	inst.KMSSocket = kms.Socket
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	acme, c := scenario.NewClient(t, inst, "acme")
	awaitKeysEncrypted(t, inst, v1beta1.ReasonKeysEncrypted, acme)
	credentials := inst.CredentialsSecret(t, c)
	token := inst.AccessToken(t, credentials)
	identity, recipient := plugin.NewIdentity(t)
	file := filepath.Join(t.TempDir(), "a.backup")
	serviceURL := strings.TrimSuffix(acme.Status.Issuer, "/acme")
	user.Succeeds(t, "backup", "--recipient", recipient, "--output", file)
	restore := []string{"restore", "--identity", identity, "--service-url", serviceURL, file}

	lose(t, inst)
	user.Succeeds(t, restore...)
	inst.StartOperator(t, "")
	restored := install.Realm("acme")
	awaitKeysEncrypted(t, inst, v1beta1.ReasonKeysEncrypted, restored)
	awaitEncrypted(t, inst, "", restored)
	inst.StartTokenServer(t).AwaitReady(t) // decrypts the keys
	inst.AwaitTokens(t, credentials, true)
	inst.AwaitValid(t, "acme", token, true)

	lose(t, inst)
	kms.Rotate(t)
	kms.Prune(t)
	user.Succeeds(t, restore...)
	inst.StartOperator(t, "")
	user.Succeeds(t, "rotate", "realm/acme", "--wait=false")
	inst.AwaitReady(t, install.Realm("acme"), metav1.ConditionTrue, v1beta1.ReasonReady)
	inst.AwaitTokens(t, credentials, true)
	inst.AwaitValid(t, "acme", token, true)
}

// lose stops the operator and deletes everything that it has written or read, as if the cluster were lost.
func lose(t *testing.T, inst *install.Installation) {
	t.Helper()
	inst.StopOperator(t)
	all := &v1beta1.ApiClientList{}
	if err := inst.Env.Client.List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		inst.Delete(t, inst.CredentialsSecret(t, &all.Items[i]))
		inst.Delete(t, &all.Items[i])
	}
	if err := inst.Env.Client.DeleteAllOf(t.Context(), &v1beta1.Realm{}); err != nil {
		t.Fatal(err)
	}
	records := []client.DeleteAllOfOption{client.InNamespace(inst.RecordsNamespace), client.HasLabels{v1beta1.RecordLabel}}
	if err := inst.Env.Client.DeleteAllOf(t.Context(), &corev1.Secret{}, records...); err != nil {
		t.Fatal(err)
	}
}
