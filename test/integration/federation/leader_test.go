package federation_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// A new leader keeps the keys and the start of a failure, although the issuer is still down.
func TestNewLeaderKeepsKeys(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{SpeedUp: often, LocalIssuers: true})
	inst.LeaderElection = true
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	up, down := issuer.StartDiscovered(t, "up"), issuer.StartDiscovered(t, "down")
	realm := install.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.TrustedIssuers = []v1alpha1.TrustedIssuer{up.Trusted(), down.Trusted()}
	})
	inst.Create(t, realm)
	awaitIssuers(t, inst, realm, metav1.ConditionTrue, v1alpha1.ReasonIssuersResolved)
	down.Stop()
	awaitIssuers(t, inst, realm, metav1.ConditionFalse, v1alpha1.ReasonIssuerNotResolved)
	before := statusOf(realm, "down")
	recorded := recordOf(t, inst, realm)

	inst.KillAndRestartOperator(t)
	requests := up.Requests()
	install.Eventually(t, "the new leader to get keys", func() error {
		if got := up.Requests(); got < requests+4 {
			return fmt.Errorf("%d requests", got-requests)
		}
		return nil
	})
	awaitFetches(t, inst, up, "up")
	awaitIssuers(t, inst, realm, metav1.ConditionFalse, v1alpha1.ReasonIssuerNotResolved)
	after := statusOf(realm, "down")
	if !after.FailingSince.Equal(before.FailingSince) || len(after.KeyIDs) != 1 {
		t.Errorf("status %+v, was %+v", after, before)
	}
	if diff := cmp.Diff(issuersIn(t, recorded), issuersIn(t, recordOf(t, inst, realm))); diff != "" {
		t.Errorf("the new leader has changed the issuers in the record, although no key has changed (-before +after):\n%s", diff)
	}
}

// issuersIn returns the trusted issuers in the record of a Realm.
func issuersIn(t *testing.T, secret *corev1.Secret) []record.Issuer {
	t.Helper()
	body, err := record.ReadRealm(secret)
	if err != nil {
		t.Fatal(err)
	}
	return body.Issuers
}

// recordOf returns the record of a Realm.
func recordOf(t *testing.T, inst *install.Installation, realm *v1alpha1.Realm) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.RealmSecretName(realm.UID)}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}
