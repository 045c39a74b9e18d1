package permissions_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// TestForgedRecordsDoNotOutliveRecovery takes the part of an attacker with the operator's credentials, who
// wants an identity and a secret of a client that remain after the recovery in docs/security.md.
func TestForgedRecordsDoNotOutliveRecovery(t *testing.T) {
	inst, operator := operator(t, install.Settings{})
	inst.StartTokenServer(t)
	realm, c := scenario.NewClient(t, inst, "acme")
	value, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := clientsecret.Hash(value, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	forged := record.ClientSecret{ID: verifier.ID(), CreatedAt: time.Now(), Hash: verifier.String()}
	stolen := scenario.Credentials(c, value)

	// The operator of an earlier version adopted such a Secret, which its policy doesn't let it create.
	planted := formerRestoreRecord(t, inst.RecordsNamespace, c, forged)
	if err := operator.Create(t.Context(), planted.DeepCopy()); err == nil {
		t.Error("The operator can create a record of another kind")
	}
	inst.Create(t, planted)
	marker := install.ApiClient(inst.Env.Namespace(t), "marker", "acme")
	inst.Create(t, marker)
	inst.AwaitReady(t, marker, metav1.ConditionTrue, v1beta1.ReasonReady) // The operator has seen the Secret.
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Labels = map[string]string{"reconcile": "again"} })
	inst.AwaitSettled(t)
	if body := bodyOf(t, inst, realm, c); body.Restored != nil || body.Identity != c.UID {
		t.Errorf("The client has adopted a Secret: identity %q, restored %+v", body.Identity, body.Restored)
	}

	// The operator can write records, so this has an effect until the recovery.
	body := bodyOf(t, inst, realm, c)
	never := time.Now().AddDate(100, 0, 0)
	body.Identity, body.Restored = "forged", &record.Restored{BackupTime: never, At: never, Secrets: []record.ClientSecret{forged}}
	desired, err := record.ForClient(inst.RecordsNamespace, body)
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Apply(t.Context(), desired, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	inst.AwaitTokens(t, stolen, true)

	records := []client.DeleteAllOfOption{client.InNamespace(inst.RecordsNamespace), client.HasLabels{v1beta1.RecordLabel}}
	if err := inst.Env.Client.DeleteAllOf(t.Context(), &corev1.Secret{}, records...); err != nil {
		t.Fatal(err)
	}
	install.Change(t, inst, realm, func(r *v1beta1.Realm) {
		r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: time.Now().Add(time.Second)}
	})
	inst.AwaitTokens(t, stolen, false)
	install.Eventually(t, "a new record of the client", func() error {
		if body := bodyOf(t, inst, realm, c); body.Restored != nil || body.Identity != c.UID {
			return fmt.Errorf("identity %q, restored %+v", body.Identity, body.Restored)
		}
		return nil
	})
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	inst.AwaitTokens(t, inst.CredentialsSecret(t, c), true)
}

// bodyOf returns the record of a client, or an empty one if there is none.
func bodyOf(t *testing.T, inst *install.Installation, realm *v1beta1.Realm, c *v1beta1.ApiClient) record.Client {
	t.Helper()
	secret := &corev1.Secret{}
	err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.ClientSecretName(realm.UID, c.EffectiveClientID())}, secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	body, err := record.ReadClient(secret)
	if err != nil {
		return record.Client{}
	}
	return body
}

// formerRestoreRecord returns a Secret that gave a client a secret and an identity in an earlier version.
func formerRestoreRecord(t *testing.T, namespace string, c *v1beta1.ApiClient, forged record.ClientSecret) *corev1.Secret {
	t.Helper()
	body, err := json.Marshal(map[string]any{"schemaVersion": 1, "body": map[string]any{
		"backupTime": time.Now(),
		"client": map[string]any{
			"realmName": c.Spec.RealmRef.Name, "clientID": c.EffectiveClientID(), "namespace": c.Namespace, "name": c.Name,
			"identity": "forged", "secrets": []any{forged},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("client/" + c.Spec.RealmRef.Name + "/" + c.EffectiveClientID()))
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "restore-" + hex.EncodeToString(sum[:]),
			Labels:      map[string]string{v1beta1.RecordLabel: "restore", v1beta1.ManagedByLabel: v1beta1.ManagedBy},
			Annotations: map[string]string{v1beta1.OwnerAnnotation: c.Namespace + "/" + c.Name},
		},
		Data: map[string][]byte{record.DataKey: body},
	}
}
