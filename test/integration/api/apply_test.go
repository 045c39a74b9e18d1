package api_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	v1alpha1ac "github.com/realmkeeper/realmkeeper/api/v1alpha1/applyconfiguration/api/v1alpha1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestApplyRealmStatus checks that the generated apply configurations match the types, including
// the keys of lists.
func TestApplyRealmStatus(t *testing.T) {
	cluster := env.Start(t)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	lifetime := v1alpha1.Duration{Duration: time.Hour}
	realm := &v1alpha1.Realm{
		ObjectMeta: metav1.ObjectMeta{Name: cluster.Namespace(t)},
		Spec:       v1alpha1.RealmSpec{Grants: []v1alpha1.Grant{{Name: "all", Namespaces: v1alpha1.GrantedNamespaces{All: &v1alpha1.AllNamespaces{}}}}},
	}
	if err := cluster.Client.Create(t.Context(), realm); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.RealmStatus{
		Conditions: []metav1.Condition{{
			Type: string(v1alpha1.ConditionReady), Status: metav1.ConditionTrue, ObservedGeneration: 1,
			Reason: string(v1alpha1.ReasonReady), Message: "Clients can get tokens.", LastTransitionTime: now,
		}},
		ObservedGeneration: 1,
		Issuer:             "https://api.example.com/acme",
		TokenLifetime:      &lifetime,
		SigningKeys: []v1alpha1.SigningKeyStatus{
			{KeyID: "a", Algorithm: v1alpha1.SigningAlgorithmES256, State: v1alpha1.SigningKeyActive, CreatedAt: now, ActiveAt: &now},
		},
	}

	apply := func() {
		t.Helper()
		desired := v1alpha1ac.Realm(realm.Name).WithStatus(v1alpha1ac.RealmStatus().
			WithConditions(metav1ac.Condition().
				WithType(string(v1alpha1.ConditionReady)).WithStatus(metav1.ConditionTrue).WithObservedGeneration(1).
				WithReason(string(v1alpha1.ReasonReady)).WithMessage("Clients can get tokens.").WithLastTransitionTime(now)).
			WithObservedGeneration(1).
			WithIssuer("https://api.example.com/acme").
			WithTokenLifetime(lifetime).
			WithSigningKeys(v1alpha1ac.SigningKeyStatus().
				WithKeyID("a").WithAlgorithm(v1alpha1.SigningAlgorithmES256).WithState(v1alpha1.SigningKeyActive).
				WithCreatedAt(now).WithActiveAt(now)))
		if err := cluster.Client.Status().Apply(t.Context(), desired, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	if diff := cmp.Diff(want, realm.Status); diff != "" {
		t.Errorf("Status (-want +got):\n%s", diff)
	}

	version := realm.ResourceVersion
	apply()
	if realm.ResourceVersion != version {
		t.Errorf("Applying an unchanged status changed the resource version from %s to %s", version, realm.ResourceVersion)
	}
	owned, err := v1alpha1ac.ExtractRealmFrom(realm, v1alpha1.FieldOwner, "status")
	if err != nil {
		t.Fatal(err)
	}
	if owned.Status == nil || len(owned.Status.Conditions) != 1 || len(owned.Status.SigningKeys) != 1 {
		t.Errorf("Extracted status: got %+v, want one condition and one signing key", owned.Status)
	}
}

func TestApplyApiClientStatus(t *testing.T) {
	cluster := env.Start(t)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	object := &v1alpha1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace(t), Name: "billing"},
		Spec:       v1alpha1.ApiClientSpec{RealmRef: v1alpha1.RealmReference{Name: "acme"}, Secret: install.GeneratedSecret()},
	}
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.ApiClientStatus{
		ObservedGeneration: 1,
		ClientID:           object.EffectiveClientID(),
		TokenEndpoint:      "https://api.example.com/acme/oauth2/token",
		SecretName:         "billing",
		Secrets:            []v1alpha1.ClientSecretStatus{{ID: "1", Role: v1alpha1.SecretRoleCurrent, CreatedAt: now}},
	}
	desired := v1alpha1ac.ApiClient(object.Name, object.Namespace).WithStatus(v1alpha1ac.ApiClientStatus().
		WithObservedGeneration(want.ObservedGeneration).WithClientID(want.ClientID).
		WithTokenEndpoint(want.TokenEndpoint).WithSecretName(want.SecretName).
		WithSecrets(v1alpha1ac.ClientSecretStatus().WithID("1").WithRole(v1alpha1.SecretRoleCurrent).WithCreatedAt(now)))
	if err := cluster.Client.Status().Apply(t.Context(), desired, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, object.Status); diff != "" {
		t.Errorf("Status (-want +got):\n%s", diff)
	}
}
