package restore_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// backup is what a backup contains about a realm and a client, and what a workload had at that time.
type backup struct {
	inst *install.Installation

	realm  *v1alpha1.Realm     // as it was
	client *v1alpha1.ApiClient // as it was
	// credentials are those of a workload that still runs, and token is one that it got.
	credentials *corev1.Secret
	token       string

	realmRecord, clientRecord record.Restore
}

// lost creates a realm and a client, takes a backup, and deletes both, as if the cluster were lost.
func lost(t *testing.T, inst *install.Installation, name string, change ...func(*v1alpha1.ApiClient)) *backup {
	t.Helper()
	b := backupOf(t, inst, name, change...)
	b.deleteClient(t)
	inst.Delete(t, b.realm)
	b.awaitGone(t)
	return b
}

// deleteClient deletes the client, and its credentials Secret after the operator has processed the deletion.
// Otherwise, the operator creates the Secret again, and a garbage collector that has just started takes half
// a minute to delete it.
func (b *backup) deleteClient(t *testing.T) {
	t.Helper()
	secret := b.inst.CredentialsSecret(t, b.client)
	b.inst.Delete(t, b.client)
	b.awaitNoSecret(t, client.ObjectKey{Namespace: b.inst.RecordsNamespace, Name: record.ClientSecretName(b.realm.UID, b.client.EffectiveClientID())})
	if err := b.inst.Env.Client.Delete(t.Context(), secret); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	b.awaitNoSecret(t, client.ObjectKeyFromObject(secret))
}

func backupOf(t *testing.T, inst *install.Installation, name string, change ...func(*v1alpha1.ApiClient)) *backup {
	t.Helper()
	realm, c := install.Realm(name), install.ApiClient(inst.Env.Namespace(t), "billing", name, change...)
	inst.Create(t, realm, c)
	scenario.AwaitUsable(t, inst, c)
	return newBackup(t, inst, realm, c, inst.CredentialsSecret(t, c))
}

// newBackup takes a backup of a client that is Ready.
func newBackup(t *testing.T, inst *install.Installation, realm *v1alpha1.Realm, c *v1alpha1.ApiClient, credentials *corev1.Secret) *backup {
	t.Helper()
	b := &backup{inst: inst, realm: realm, client: c, credentials: credentials, token: inst.AccessToken(t, credentials)}
	b.realmRecord = record.RestoreRealm(b.realmBody(t), time.Now())
	b.clientRecord = record.RestoreClient(b.clientBody(t), time.Now())
	return b
}

// awaitGone waits until nothing of the realm and the client is left.
func (b *backup) awaitGone(t *testing.T) {
	t.Helper()
	for _, key := range []client.ObjectKey{
		{Namespace: b.inst.RecordsNamespace, Name: record.RealmSecretName(b.realm.UID)},
		{Namespace: b.inst.RecordsNamespace, Name: record.ClientSecretName(b.realm.UID, b.client.EffectiveClientID())},
		{Namespace: b.client.Namespace, Name: b.client.EffectiveSecretName()},
	} {
		b.awaitNoSecret(t, key)
	}
}

func (b *backup) awaitNoSecret(t *testing.T, key client.ObjectKey) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("Secret %s to be deleted", key), func() error {
		return install.NotFound(b.inst.Env.Client.Get(t.Context(), key, &corev1.Secret{}))
	})
}

// restoreRecords creates the restore records, as "kubectl realmkeeper restore" does.
func (b *backup) restoreRecords(t *testing.T, records ...record.Restore) {
	t.Helper()
	for _, r := range records {
		desired, err := record.ForRestore(b.inst.RecordsNamespace, r)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := apply.Convert[corev1.Secret](desired)
		if err != nil {
			t.Fatal(err)
		}
		b.inst.Create(t, secret)
	}
}

// recreate creates the realm and the client again. They get new UIDs.
func (b *backup) recreate(t *testing.T, change ...func(*v1alpha1.ApiClient)) {
	t.Helper()
	realm, c := install.Realm(b.realm.Name), b.newClient(change...)
	b.inst.Create(t, realm, c)
	b.realm, b.client = realm, c
}

func (b *backup) newClient(change ...func(*v1alpha1.ApiClient)) *v1alpha1.ApiClient {
	return install.ApiClient(b.client.Namespace, b.client.Name, b.client.Spec.RealmRef.Name, append([]func(*v1alpha1.ApiClient){
		func(c *v1alpha1.ApiClient) { c.Spec = *b.client.Spec.DeepCopy() },
	}, change...)...)
}

// finish deletes the restore record of the client, as "kubectl realmkeeper restore --finish" does.
func (b *backup) finish(t *testing.T) {
	t.Helper()
	b.inst.Delete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.inst.RecordsNamespace, Name: b.clientRecord.SecretName()}})
}

func (b *backup) realmBody(t *testing.T) record.Realm {
	t.Helper()
	body, err := record.ReadRealm(b.secret(t, record.RealmSecretName(b.realm.UID)))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (b *backup) clientBody(t *testing.T) record.Client {
	t.Helper()
	body, err := record.ReadClient(b.secret(t, record.ClientSecretName(b.realm.UID, b.client.EffectiveClientID())))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (b *backup) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := b.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: b.inst.RecordsNamespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// restores returns the names of the restore records of the realm and the client that exist.
func (b *backup) restores(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range []record.Restore{b.realmRecord, b.clientRecord} {
		err := b.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: b.inst.RecordsNamespace, Name: r.SecretName()}, &corev1.Secret{})
		switch {
		case err == nil && r.Realm != nil:
			names = append(names, "realm")
		case err == nil:
			names = append(names, "client")
		case !apierrors.IsNotFound(err):
			t.Fatal(err)
		}
	}
	return names
}

// awaitComplete waits until no restore record is left.
func (b *backup) awaitComplete(t *testing.T) {
	t.Helper()
	install.Eventually(t, "the restore records to be deleted", func() error {
		if left := b.restores(t); len(left) > 0 {
			return fmt.Errorf("those of %v are left", left)
		}
		return nil
	})
}

// awaitRestored waits until the object has the Restored condition with the given status and reason.
func (b *backup) awaitRestored(t *testing.T, obj client.Object, status metav1.ConditionStatus, reason v1alpha1.ConditionReason) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("%T %s to be Restored=%s", obj, obj.GetName(), status), func() error {
		if err := b.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		c := meta.FindStatusCondition(install.Conditions(obj), string(v1alpha1.ConditionRestored))
		if c == nil || c.Status != status || c.Reason != string(reason) {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

// awaitAccepted waits until the client accepts only the restored secret with the given ID in addition to
// its own.
func (b *backup) awaitAccepted(t *testing.T, id string) {
	t.Helper()
	install.Eventually(t, "the client to accept restored secret "+id, func() error {
		b.awaitRestored(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonRestoredFromBackup)
		if message := scenario.ConditionMessage(t, b.client, v1alpha1.ConditionRestored); !strings.Contains(message, "accepts 1 of the backup: "+id) {
			return errors.New(message)
		}
		return nil
	})
}

// awaitWhole waits until the client works again: every token server accepts the token and the secret
// that the workload had, and issues tokens with the identity that it had.
func (b *backup) awaitWhole(t *testing.T) {
	t.Helper()
	b.awaitRestored(t, b.realm, metav1.ConditionTrue, v1alpha1.ReasonRestoredFromBackup)
	b.awaitRestored(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonRestoredFromBackup)
	b.inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	b.inst.AwaitValid(t, b.realm.Name, b.token, true) // Token servers may load the keys of the realm last.
	b.expectWhole(t)
}

// expectWhole checks what awaitWhole waits for. A client that is Ready needs no further time.
func (b *backup) expectWhole(t *testing.T) {
	t.Helper()
	for _, s := range b.inst.Servers() {
		response, err := install.RequestToken(t, s, s.Client(t), b.credentials)
		if err != nil || response.AccessToken == "" {
			t.Errorf("%s does not issue a token for the secret of the backup: %+v, %v", s.Name, response, err)
			continue
		}
		if got, want := identityOf(t, response.AccessToken), identityOf(t, b.token); got != want {
			t.Errorf("the identity in a new token is %q, want that of the backup, %q", got, want)
		}
		for what, token := range map[string]string{"the token of the backup": b.token, "a new token": response.AccessToken} {
			if !b.inst.ValidAt(t, s, b.realm.Name, token) {
				t.Errorf("%s rejects %s", s.Name, what)
			}
		}
	}
}

// identityOf returns the claim client_uid of a token.
func identityOf(t *testing.T, token string) string {
	t.Helper()
	var claims struct {
		Identity string `json:"client_uid"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is not a token", token)
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err = errors.Join(err, json.Unmarshal(data, &claims)); err != nil || claims.Identity == "" {
		t.Fatalf("the token has no identity: %v", err)
	}
	return claims.Identity
}

// expectNothingRestored checks that the client works and has nothing of the backup.
func (b *backup) expectNothingRestored(t *testing.T) {
	t.Helper()
	// Wait first, because the token servers delay clients that fail too often.
	install.Eventually(t, "the client to have a record", func() error {
		name := record.ClientSecretName(b.realm.UID, b.client.EffectiveClientID())
		return b.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: b.inst.RecordsNamespace, Name: name}, &corev1.Secret{})
	})
	b.inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	s := b.inst.Servers()[0]
	install.Eventually(t, "the client to get a token with its UID", func() error {
		response, err := install.RequestToken(t, s, s.Client(t), b.inst.CredentialsSecret(t, b.client))
		if err != nil || response.AccessToken == "" {
			return fmt.Errorf("the response is %+v, %w", response, err)
		}
		if got := identityOf(t, response.AccessToken); got != string(b.client.UID) {
			return fmt.Errorf("the identity is %q, want the UID %q", got, b.client.UID)
		}
		return nil
	})
	b.inst.AwaitTokens(t, b.credentials, false)
	b.inst.AwaitValid(t, b.realm.Name, b.token, false)
}
