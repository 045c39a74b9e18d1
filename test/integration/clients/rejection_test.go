package clients_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// If a spec is valid according to the schema but a realm or the instance doesn't allow it, a
// condition names the violated rule. The client gets no tokens until the spec is corrected.
func testRejectedSpecs(t *testing.T, inst *install.Installation) {
	team := inst.Env.Namespace(t)
	inst.Create(t, install.Realm("rejection", func(r *v1beta1.Realm) {
		r.Spec.Scopes = []string{"read"}
		r.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{Names: []string{team}}
	}))

	c := install.ApiClient(team, "scope", "rejection", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"read", "write", "admin"} })
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonScopeNotInRealm)
	for _, condition := range []v1beta1.ConditionType{v1beta1.ConditionAccepted, v1beta1.ConditionStalled} {
		scenario.ExpectMessage(t, c, condition, "spec.scopes", "admin, write", `"rejection"`)
	}
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"read"} })
	scenario.AwaitUsable(t, inst, c)

	realm := install.Realm("slow", func(r *v1beta1.Realm) { r.Spec.TokenLifetime = &v1beta1.Duration{Duration: 3 * time.Hour} })
	inst.Create(t, realm)
	inst.AwaitReady(t, realm, metav1.ConditionFalse, v1beta1.ReasonLifetimeExceedsInstanceMaximum)
	scenario.ExpectMessage(t, realm, v1beta1.ConditionAccepted, "spec.tokenLifetime", "3h0m0s", "2h0m0s", "security.maximumTokenLifetime")
	install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.TokenLifetime = &v1beta1.Duration{Duration: 2 * time.Hour} })
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
}

// A prefix in a grant doesn't cover the default client IDs of another existing namespace. A client
// that already holds such an ID keeps it when the namespace is created; otherwise, anyone who can
// create a namespace could stop the client.
func testNewNamespaceLimitsPrefix(t *testing.T, inst *install.Installation) {
	realm := install.Realm("prefix", func(r *v1beta1.Realm) { r.Spec.Grants[0].ClientIDs = []string{"prefixed-*"} })
	claimed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prefixed-apps"}}
	prefixed := func(name string) *v1beta1.ApiClient {
		return install.ApiClient(inst.Env.Namespace(t), name, realm.Name, func(c *v1beta1.ApiClient) { c.Spec.ClientID = claimed.Name + "." + name })
	}
	holder := prefixed("billing")
	inst.Create(t, realm, holder)
	scenario.AwaitUsable(t, inst, holder)
	credentials := inst.CredentialsSecret(t, holder)

	inst.Create(t, claimed)
	late := prefixed("late")
	own := install.ApiClient(claimed.Name, "billing", realm.Name)
	inst.Create(t, late, own)
	inst.AwaitReady(t, late, metav1.ConditionFalse, v1beta1.ReasonNotGranted)
	scenario.ExpectMessage(t, late, v1beta1.ConditionAccepted, claimed.Name+".late", `"`+claimed.Name+`"`)
	inst.AwaitReady(t, own, metav1.ConditionFalse, v1beta1.ReasonClientIDConflict)
	install.Change(t, inst, holder, func(c *v1beta1.ApiClient) { c.Spec.Description = "Reconcile." })
	scenario.AwaitUsable(t, inst, holder)
	inst.AwaitTokens(t, credentials, true)

	install.Change(t, inst, holder, func(c *v1beta1.ApiClient) { install.Release(c) })
	scenario.AwaitUsable(t, inst, own)
}

// The operator restores a label that was removed from a record. The record's keys or hashes remain
// valid.
func testRecordLabelsAreRestored(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	realm, c := scenario.NewClient(t, inst, "labels")
	credentials := inst.CredentialsSecret(t, c)
	for _, label := range []string{v1beta1.RecordLabel, v1beta1.ManagedByLabel} {
		for _, name := range []string{record.RealmRecordName(realm.UID), scenario.RecordName(t, inst, c)} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: inst.RecordsNamespace, Name: name}}
			install.Change(t, inst, secret, func(s *corev1.Secret) { delete(s.Labels, label) })
			install.Eventually(t, label+" to be restored on "+name, func() error {
				err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
				if err == nil && secret.Labels[label] == "" {
					err = fmt.Errorf("labels are %v", secret.Labels)
				}
				return err
			})
		}
	}
	inst.AwaitTokens(t, credentials, true)
	scenario.AwaitUsable(t, inst, c)
}

// A Realm whose record was deleted gets no new key until a user requests a rotation. Its clients keep their
// secrets.
func testLostSigningKeys(t *testing.T, inst *install.Installation) {
	realm, c := scenario.NewClient(t, inst, "lost")
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	credentials := inst.CredentialsSecret(t, c)
	token := inst.AccessToken(t, credentials)
	lost := realm.Status.SigningKeys
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: inst.RecordsNamespace, Name: record.RealmRecordName(realm.UID)}}
	inst.Delete(t, secret.DeepCopy())

	inst.AwaitReady(t, realm, metav1.ConditionFalse, v1beta1.ReasonKeysMissing)
	scenario.ExpectMessage(t, realm, v1beta1.ConditionReady, secret.Name, "kubectl realmkeeper restore", "kubectl realmkeeper rotate realm/lost --wait=false")
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonRealmNotReady)
	install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.Signing.RotationRequestTime = &lost[len(lost)-1].CreationTime })
	install.Eventually(t, "the rotation to be observed", func() error {
		inst.AwaitReady(t, realm, metav1.ConditionFalse, v1beta1.ReasonKeysMissing)
		if realm.Status.ObservedGeneration != realm.Generation {
			return fmt.Errorf("generation %d is observed, not %d", realm.Status.ObservedGeneration, realm.Generation)
		}
		return nil
	})
	if diff := cmp.Diff(lost, realm.Status.SigningKeys); diff != "" {
		t.Errorf("the listed keys have changed (-lost +listed):\n%s", diff)
	}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); install.NotFound(err) != nil {
		t.Errorf("the record exists again: %v", err)
	}

	install.Change(t, inst, realm, func(r *v1beta1.Realm) {
		r.Spec.Signing.RotationRequestTime = &metav1.Time{Time: time.Now().Add(time.Second)}
	})
	scenario.AwaitUsable(t, inst, c)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	if keys := realm.Status.SigningKeys; len(keys) != 1 || keys[0].KeyID == lost[0].KeyID {
		t.Errorf("the keys are %v, want a new one", keys)
	}
	inst.AwaitTokens(t, credentials, true)
	inst.AwaitValid(t, realm.Name, token, false)
}

// Token servers skip a corrupt record and count it, and the status reports it. They serve the last
// known good version until the record is restored or deleted, also after a restart.
func TestCorruptRecords(t *testing.T) {
	cluster := env.Start(t)
	inst, realm, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)

	for name, test := range map[string]struct {
		record      string
		owner       client.Object
		wantReason  v1beta1.ConditionReason
		clientAfter v1beta1.ConditionReason
	}{
		"of a realm":  {record.RealmRecordName(realm.UID), realm, v1beta1.ReasonKeysUnreadable, v1beta1.ReasonRealmNotReady},
		"of a client": {scenario.RecordName(t, inst, c), c, v1beta1.ReasonRecordUnreadable, v1beta1.ReasonRecordUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			good := &corev1.Secret{}
			if err := cluster.Client.Get(t.Context(), types.NamespacedName{Namespace: inst.RecordsNamespace, Name: test.record}, good); err != nil {
				t.Fatal(err)
			}
			corrupt := good.DeepCopy()
			install.Change(t, inst, corrupt, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte(`{"schemaVersion":1,"body":"canary"}`) })
			inst.AwaitReady(t, test.owner, metav1.ConditionFalse, test.wantReason)
			inst.AwaitReady(t, c, metav1.ConditionFalse, test.clientAfter)
			scenario.ExpectMessage(t, test.owner, v1beta1.ConditionReady, inst.RecordsNamespace+"/"+test.record, "kubectl realmkeeper restore")
			if message := scenario.ConditionMessage(t, test.owner, v1beta1.ConditionReady); strings.Contains(message, "canary") {
				t.Errorf("the message contains the content of the record: %s", message)
			}
			for _, s := range inst.Servers() {
				install.Eventually(t, s.Name+" to count the corrupt record", func() error {
					if got := s.Metric(t, "realmkeeper_registry_unreadable_records"); got != "1" {
						return fmt.Errorf("the count is %s", got)
					}
					return nil
				})
				s.KillAndRestart(t)
				s.AwaitReady(t)
			}
			inst.AwaitTokens(t, credentials, true)

			install.Change(t, inst, corrupt, func(s *corev1.Secret) { s.Data = good.Data })
			inst.AwaitReady(t, test.owner, metav1.ConditionTrue, v1beta1.ReasonReady)
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
			inst.AwaitTokens(t, credentials, true)
		})
	}
}

// The operator restores changed fields of the credentials Secret. If the Secret is deleted, the
// operator creates a replacement with a new secret and revokes the old secret.
func testCredentialsSecretIsRestored(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	c := install.ApiClient(cluster.Namespace(t), "billing", "restored", func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{
			Template: v1beta1.SecretTemplate{
				Labels:      map[string]v1beta1.LabelValue{"team": "billing"},
				Annotations: map[string]v1beta1.AnnotationValue{"note": "kept"},
			},
		}}
	})
	inst.Create(t, install.Realm("restored"), c)
	scenario.AwaitUsable(t, inst, c)
	credentials := inst.CredentialsSecret(t, c)
	if credentials.Labels["team"] != "billing" || credentials.Annotations["note"] != "kept" || credentials.Type != corev1.SecretTypeOpaque {
		t.Errorf("labels %v, annotations %v, type %s", credentials.Labels, credentials.Annotations, credentials.Type)
	}

	t.Run("labels of other writers are kept", func(t *testing.T) {
		install.Change(t, inst, credentials.DeepCopy(), func(s *corev1.Secret) {
			s.Labels["example.com/note"] = "kept"
			s.Labels["team"] = "changed"
		})
		install.Eventually(t, "the label to be restored", func() error {
			now := inst.CredentialsSecret(t, c)
			if now.Labels["team"] != "billing" || now.Labels["example.com/note"] != "kept" {
				return fmt.Errorf("labels are %v", now.Labels)
			}
			return nil
		})
		inst.AwaitTokens(t, credentials, true)
	})
	t.Run("deleted", func(t *testing.T) {
		inst.Delete(t, credentials)
		inst.AwaitTokens(t, credentials, false)
		fresh := credentials
		install.Eventually(t, "a new secret", func() error {
			fresh = &corev1.Secret{}
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(credentials), fresh); err != nil {
				return err
			}
			return nil
		})
		inst.AwaitTokens(t, fresh, true)
		scenario.AwaitUsable(t, inst, c)
	})
}
