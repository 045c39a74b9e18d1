package realm_test

import (
	"crypto/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/realm"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// A Realm gets a key, keeps it, and rotates it when it is due.
func TestEvaluate(t *testing.T) {
	instance := &config.Instance{InstanceDomain: "example.com", ExternalPort: 443, Security: config.Security{
		DefaultTokenLifetime: metav1.Duration{Duration: 5 * time.Minute}, MaximumTokenLifetime: metav1.Duration{Duration: time.Hour},
	}}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	acme := &v1alpha1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "r1"}}
	var current *corev1.Secret
	evaluate := func() realm.Evaluation {
		t.Helper()
		e, err := realm.Evaluate(realm.Objects{Realm: acme, Record: current}, instance, at, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if e.Record != nil {
			desired, err := record.ForRealm("records", acme, *e.Record)
			if err != nil {
				t.Fatal(err)
			}
			if current, err = apply.Convert[corev1.Secret](desired); err != nil {
				t.Fatal(err)
			}
		}
		acme.Status = e.Status
		return e
	}

	first := evaluate()
	if !meta.IsStatusConditionTrue(first.Status.Conditions, string(v1alpha1.ConditionReady)) || len(first.Status.SigningKeys) != 1 {
		t.Fatalf("status %+v, want Ready with one key", first.Status)
	}
	again := evaluate()
	if again.Status.SigningKeys[0].KeyID != first.Status.SigningKeys[0].KeyID || again.RequeueAfter <= 0 {
		t.Errorf("second evaluation: keys %+v, requeue after %s; want the same key, and a time", again.Status.SigningKeys, again.RequeueAfter)
	}
	at = at.Add(again.RequeueAfter)
	if next := evaluate(); len(next.Status.SigningKeys) != 2 {
		t.Errorf("keys after %s: %+v, want a second one", again.RequeueAfter, next.Status.SigningKeys)
	}
	acme.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 2 * time.Hour}
	if e := evaluate(); !e.Record.Disabled || meta.IsStatusConditionTrue(e.Status.Conditions, string(v1alpha1.ConditionReady)) {
		t.Errorf("record disabled %t, conditions %+v; want a Realm that is not Accepted", e.Record.Disabled, e.Status.Conditions)
	}
}
