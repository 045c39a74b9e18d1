package clients_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// GitOps tools apply objects in any order, so a client before its realm must converge, too.
func testClientBeforeRealm(t *testing.T, inst *install.Installation) {
	c := install.ApiClient(inst.Env.Namespace(t), "billing", "client-first")
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonRealmNotFound)
	inst.Create(t, install.Realm("client-first"))
	scenario.AwaitUsable(t, inst, c)
}

const reflects = "reflector.v1.k8s.emberstack.com/reflection-allowed"

// metadataSecret returns a Secret as in a Git repository, with metadata for the credentials Secret of a client.
func metadataSecret(namespace, name string, change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:      map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated, "team": "payments"},
		Annotations: map[string]string{reflects: "true"},
	}}
	for _, f := range change {
		f(s)
	}
	return s
}

// An empty Secret with the label becomes the credentials Secret of a client that is applied later, and keeps its
// metadata. It is deleted with the client.
func testSecretMetadataBeforeClient(t *testing.T, inst *install.Installation) {
	inst.Create(t, install.Realm("metadata-first"))
	applied := metadataSecret(inst.Env.Namespace(t), "billing")
	inst.Create(t, applied)
	c := install.ApiClient(applied.Namespace, "billing", "metadata-first")
	inst.Create(t, c)
	scenario.AwaitUsable(t, inst, c)
	adopted := inst.CredentialsSecret(t, c)
	if adopted.UID != applied.UID || adopted.Annotations[reflects] != "true" || adopted.Labels["team"] != "payments" || !metav1.IsControlledBy(adopted, c) {
		t.Errorf("the Secret is %+v", adopted.ObjectMeta)
	}
	inst.Delete(t, c)
	install.Eventually(t, "the Secret to be deleted", func() error {
		return install.NotFound(inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(applied), &corev1.Secret{}))
	})
}

// A Secret that something else may use, or that has no label, isn't adopted and doesn't change.
func testOtherSecretIsNotAdopted(t *testing.T, inst *install.Installation) {
	inst.Create(t, install.Realm("not-adopted"))
	namespace := inst.Env.Namespace(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	inst.Create(t, owner)
	for name, change := range map[string]func(*corev1.Secret){
		"data":      func(s *corev1.Secret) { s.Data = map[string][]byte{"password": []byte("swordfish")} },
		"empty-key": func(s *corev1.Secret) { s.Data = map[string][]byte{v1beta1.SecretKeyClientSecret: nil} },
		"no-label":  func(s *corev1.Secret) { delete(s.Labels, v1beta1.ClientSecretLabel) },
		"provided":  func(s *corev1.Secret) { s.Labels[v1beta1.ClientSecretLabel] = v1beta1.ClientSecretProvided },
		"type":      func(s *corev1.Secret) { s.Type = "example.com/empty" },
		"immutable": func(s *corev1.Secret) { s.Immutable = new(true) },
		"owner": func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := metadataSecret(namespace, name, change)
			inst.Create(t, other)
			c := install.ApiClient(namespace, name, "not-adopted")
			inst.Create(t, c)
			inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonSecretConflict)
			scenario.ExpectMessage(t, c, v1beta1.ConditionAccepted, name, "remove its data", "auth.realmkeeper.dev/client-secret: generated")
			now := &corev1.Secret{}
			if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(other), now); err != nil || now.ResourceVersion != other.ResourceVersion {
				t.Errorf("the Secret has changed: %s, %v", cmp.Diff(other, now), err)
			}
		})
	}
}
