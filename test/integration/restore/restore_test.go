package restore_test

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// TestRestore restores realms and clients whose cluster is lost, first several at a time, and then one
// at a time while the operator fails.
func TestRestore(t *testing.T) {
	f := startWithFaults(t)
	t.Run("healthy operator", func(t *testing.T) { testHealthyOperator(t, f.inst) })
	for _, test := range []struct {
		name string
		run  func(*testing.T, *faults)
	}{
		{"stale cache, client recreated before the restore", testStaleClient},
		{"stale cache, client recreated after the restore", testStaleRestoreRecord},
		{"two operators", testTwoOperators},
		{"operator killed at every write", testKilledAtEveryWrite},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, f) })
	}
}

func testHealthyOperator(t *testing.T, inst *install.Installation) {
	for name, test := range map[string]func(*testing.T, *install.Installation){
		"lost cluster":                  testLostCluster,
		"objects exist first":           testObjectsExistFirst,
		"running cluster":               testRunningCluster,
		"credentials without an owner":  testCredentialsWithoutOwner,
		"credentials of a stale owner":  testCredentialsOfStaleOwner,
		"provided secret":               testProvidedSecret,
		"revoked secret":                testRevokedSecret,
		"suspended and without secrets": testSuspendedAndWithoutSecrets,
		"expired secret":                testExpiredSecret,
		"recreated client":              testRecreatedClient,
		"recreated realm":               testRecreatedRealm,
		"another ApiClient":             testAnotherApiClient,
		"finished and restored again":   testFinishedAndRestoredAgain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, inst)
		})
	}
}

// All objects are lost. The restore records exist before the objects, as after
// "kubectl realmkeeper restore".
func testLostCluster(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "lost")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t)
	b.awaitWhole(t)
	if diff := cmp.Diff([]string{"client"}, b.restores(t)); diff != "" {
		t.Errorf("restore records (-want +got):\n%s", diff)
	}
	scenario.ExpectMessage(t, b.client, v1alpha1.ConditionRestored, "accepts 1 of the backup", b.clientRecord.Client.Secrets[0].ID, "restore --finish")
	// The realm signs with the restored key, so no verifier has to load a new one.
	if got, want := signingkey.ActiveID(b.realmBody(t).Keys), signingkey.ActiveID(b.realmRecord.Realm.Keys); got != want {
		t.Errorf("key %s signs, want %s", got, want)
	}

	// The workload gets the new secret, and the old one ends when the restore is finished.
	current := inst.CredentialsSecret(t, b.client)
	inst.AwaitTokens(t, current, true)
	if scenario.ClientSecret(current) == scenario.ClientSecret(b.credentials) {
		t.Fatal("the new secret is the old one")
	}
	b.finish(t)
	inst.AwaitTokens(t, b.credentials, false)
	inst.AwaitTokens(t, current, true)
	if got, want := identityOf(t, inst.AccessToken(t, current)), identityOf(t, b.token); got != want {
		t.Errorf("after the finish, the identity is %q, want %q", got, want)
	}
	inst.AwaitValid(t, b.realm.Name, b.token, true)
}

// GitOps creates the objects before the restore. They work with new keys, secrets, and identities.
func testObjectsExistFirst(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "first")
	b.recreate(t)
	b.inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	current := inst.CredentialsSecret(t, b.client)
	between := inst.AccessToken(t, current)
	signs := signingkey.ActiveID(b.realmBody(t).Keys)

	b.restoreRecords(t, b.clientRecord, b.realmRecord)
	b.awaitWhole(t)
	inst.AwaitTokens(t, current, true)
	inst.AwaitValid(t, b.realm.Name, between, true)
	if got := signingkey.ActiveID(b.realmBody(t).Keys); got != signs {
		t.Errorf("key %s signs, want %s as before the restore", got, signs)
	}
}

// A backup of a running cluster changes nothing that works.
func testRunningCluster(t *testing.T, inst *install.Installation) {
	b := backupOf(t, inst, "running")
	before := b.realmBody(t).Keys
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.awaitWhole(t)
	b.awaitComplete(t)
	if diff := cmp.Diff(ids(before), ids(b.realmBody(t).Keys)); diff != "" {
		t.Errorf("keys (-before +after):\n%s", diff)
	}
	if current := inst.CredentialsSecret(t, b.client); scenario.ClientSecret(current) != scenario.ClientSecret(b.credentials) {
		t.Error("the client has a new secret")
	}
}

func ids(keys []signingkey.Key) (ids []string) {
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return ids
}

// restoreCredentials creates the credentials Secret as a backup tool does.
func (b *backup) restoreCredentials(t *testing.T, owner types.UID) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.credentials.Namespace, Name: b.credentials.Name, Labels: b.credentials.Labels},
		Data:       b.credentials.Data, Type: b.credentials.Type,
	}
	if owner != "" {
		secret.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ApiClient", Name: b.client.Name, UID: owner, Controller: new(true),
		}}
	}
	b.inst.Create(t, secret)
	return secret
}

// A credentials Secret that was restored without an owner becomes the client's own, with its secret.
func testCredentialsWithoutOwner(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "ownerless")
	restored := b.restoreCredentials(t, "")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t)
	b.awaitWhole(t)
	current := inst.CredentialsSecret(t, b.client)
	if current.UID != restored.UID || !metav1.IsControlledBy(current, b.client) || scenario.ClientSecret(current) != scenario.ClientSecret(b.credentials) {
		t.Errorf("the credentials Secret has UID %s and owners %+v, or another secret", current.UID, current.OwnerReferences)
	}
	if body := b.clientBody(t); len(body.Secrets) != 1 || len(body.Restored.Secrets) != 0 {
		t.Errorf("the client has %d secrets and %d restored ones, want 1 and 0", len(body.Secrets), len(body.Restored.Secrets))
	}
	b.awaitComplete(t)
}

// Velero restores Secrets before custom resources, and keeps the UID of the owner. The garbage collector
// deletes such a Secret, unless the client takes it over before.
func testCredentialsOfStaleOwner(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "velero")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	stale := b.client.UID
	b.recreate(t, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	b.inst.AwaitReady(t, b.client, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	if err := inst.Env.Client.Delete(t.Context(), inst.CredentialsSecret(t, b.client)); err != nil {
		t.Fatal(err)
	}
	install.Eventually(t, "the credentials Secret to be created with a stale owner", func() error {
		err := inst.Env.Client.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: b.credentials.Namespace, Name: b.credentials.Name, Labels: b.credentials.Labels,
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: v1alpha1.GroupVersion.String(), Kind: "ApiClient", Name: b.client.Name, UID: stale, Controller: new(true),
				}},
			},
			Data: b.credentials.Data, Type: b.credentials.Type,
		})
		return client.IgnoreAlreadyExists(err)
	})
	install.Change(t, inst, b.client, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
	b.awaitWhole(t)
	current := inst.CredentialsSecret(t, b.client)
	inst.AwaitTokens(t, current, true)
	if !metav1.IsControlledBy(current, b.client) {
		t.Errorf("the credentials Secret has the owners %+v", current.OwnerReferences)
	}
}

// A provided secret that is in the backup is accepted once.
func testProvidedSecret(t *testing.T, inst *install.Installation) {
	b := lostProvided(t, inst, "provided")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t, scenario.UseProvidedSecret)
	b.awaitWhole(t)
	body := b.clientBody(t)
	if len(body.Secrets) != 1 || body.Secrets[0].Hash != b.clientRecord.Client.Secrets[0].Hash || len(body.Restored.Secrets) != 0 {
		t.Errorf("the client has %d secrets and %d restored ones, want the hash of the backup once", len(body.Secrets), len(body.Restored.Secrets))
	}
}

// A user who revokes the client's tokens also revokes the secrets of the backup.
func testRevokedSecret(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "revoked")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t)
	b.awaitWhole(t)
	current := inst.CredentialsSecret(t, b.client)

	install.Change(t, inst, b.client, func(c *v1alpha1.ApiClient) { c.Spec.TokensValidAfter = &metav1.Time{Time: time.Now().Add(time.Second)} })
	inst.AwaitValid(t, b.realm.Name, b.token, false)
	inst.AwaitTokens(t, b.credentials, false)
	inst.AwaitTokens(t, current, true)
	inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	b.awaitComplete(t)
}

func testSuspendedAndWithoutSecrets(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "suspended")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	b.inst.AwaitReady(t, b.client, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	inst.AwaitTokens(t, b.credentials, false)
	install.Change(t, inst, b.client, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
	b.awaitWhole(t)

	inst.ServiceAccount(t, b.client.Namespace, "billing")
	install.Change(t, inst, b.client, func(c *v1alpha1.ApiClient) {
		c.Spec.Secret, c.Spec.ServiceAccounts = nil, []v1alpha1.ServiceAccountReference{{Name: "billing"}}
	})
	inst.AwaitTokens(t, b.credentials, false)
	install.Change(t, inst, b.client, func(c *v1alpha1.ApiClient) { c.Spec.Secret = install.GeneratedSecret() })
	inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	inst.AwaitTokens(t, b.credentials, false)
}

// newVerifier returns the hash of a new secret, and the secret.
func newVerifier(t *testing.T) (clientsecret.Verifier, string) {
	t.Helper()
	value, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := clientsecret.Hash(value, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return verifier, value
}

// A secret that was being replaced at the time of the backup expires when it would have.
func testExpiredSecret(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "expired")
	verifier, value := newVerifier(t)
	restored := b.clientRecord.Client
	restored.Secrets[0].ExpiresAt = time.Now().Add(3 * time.Second)
	restored.Secrets = append(restored.Secrets, record.ClientSecret{ID: verifier.ID(), CreatedAt: time.Now(), Hash: verifier.String()})
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t)
	inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	inst.AwaitTokens(t, scenario.Credentials(b.client, value), true)
	inst.AwaitTokens(t, b.credentials, false)
	b.awaitAccepted(t, verifier.ID())
}

// A client that is deleted after the restore and created again, perhaps by another user, gets nothing.
func testRecreatedClient(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "recreated")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t)
	b.awaitWhole(t)
	b.deleteClient(t)
	b.client = b.newClient()
	inst.Create(t, b.client)
	b.expectNothingRestored(t)
	if left := b.restores(t); len(left) > 0 {
		t.Errorf("restore records %v are left", left)
	}
}

func testRecreatedRealm(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "recreatedrealm")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t)
	b.awaitWhole(t)
	inst.Delete(t, b.realm)
	b.awaitNoSecret(t, client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.ClientSecretName(b.realm.UID, b.client.EffectiveClientID())})
	b.realm = install.Realm(b.realm.Name)
	inst.Create(t, b.realm)
	b.expectNothingRestored(t)
	if slices.ContainsFunc(b.realmBody(t).Keys, func(k signingkey.Key) bool { return k.ID == b.realmRecord.Realm.Keys[0].ID }) {
		t.Error("the new realm has a key of the backup")
	}
}

// A tenant who creates a client with the client ID of another one doesn't get its restore record.
func testAnotherApiClient(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "another", func(c *v1alpha1.ApiClient) { c.Spec.ClientID = "payments" })
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	owner := b.client
	b.recreate(t, func(c *v1alpha1.ApiClient) { c.Name = "attacker" })
	b.awaitRestored(t, b.client, metav1.ConditionFalse, v1alpha1.ReasonRestoreRecordIgnored)
	scenario.ExpectMessage(t, b.client, v1alpha1.ConditionRestored, "kubectl delete secret "+b.clientRecord.SecretName()+" -n "+inst.RecordsNamespace)
	b.inst.AwaitReady(t, b.client, metav1.ConditionTrue, v1alpha1.ReasonReady)
	b.inst.AwaitTokens(t, b.credentials, false)
	inst.AwaitValid(t, b.realm.Name, b.token, false)
	if diff := cmp.Diff([]string{"client"}, b.restores(t), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("restore records (-want +got):\n%s", diff)
	}
	// The record is still there for its owner.
	b.deleteClient(t)
	b.client = owner
	b.client = b.newClient()
	inst.Create(t, b.client)
	b.awaitWhole(t)
}

// A restore can be finished and repeated. Another backup doesn't change the identity again.
func testFinishedAndRestoredAgain(t *testing.T, inst *install.Installation) {
	b := lost(t, inst, "again")
	b.restoreRecords(t, b.realmRecord, b.clientRecord)
	b.recreate(t)
	b.awaitWhole(t)
	restoredID := b.clientRecord.Client.Secrets[0].ID
	b.finish(t)
	inst.AwaitTokens(t, b.credentials, false)

	again := b.clientRecord
	another := *again.Client
	another.Identity = "another"
	again.Client = &another
	b.restoreRecords(t, b.realmRecord, again)
	b.awaitAccepted(t, restoredID)
	b.awaitWhole(t)
}
