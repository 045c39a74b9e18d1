package apiclient

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
)

// A client that has lost its grant is reconciled before others.
func TestLostGrant(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*v1alpha1.Realm)
		accepted metav1.ConditionStatus
		want     bool
	}{
		"covered":       {func(*v1alpha1.Realm) {}, metav1.ConditionTrue, false},
		"no grant":      {func(r *v1alpha1.Realm) { r.Spec.Grants = nil }, metav1.ConditionTrue, true},
		"never had one": {func(r *v1alpha1.Realm) { r.Spec.Grants = nil }, metav1.ConditionFalse, false},
		"other namespace": {func(r *v1alpha1.Realm) {
			r.Spec.Grants[0].Namespaces = v1alpha1.GrantedNamespaces{Names: []string{"other"}}
		}, metav1.ConditionTrue, true},
		"fewer audiences":    {func(r *v1alpha1.Realm) { r.Spec.Grants[0].Audiences = []string{"https://other.example.com"} }, metav1.ConditionTrue, true},
		"Realm is deleted":   {func(r *v1alpha1.Realm) { r.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, metav1.ConditionTrue, true},
		"Realm is suspended": {func(r *v1alpha1.Realm) { r.Spec.Suspend = true }, metav1.ConditionTrue, false}, // Its own record says so.
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(func(s *observed) { test.change(s.realm) })
			c := seen.client.DeepCopy()
			c.Status.Conditions = []metav1.Condition{{Type: string(v1alpha1.ConditionAccepted), Status: test.accepted}}
			cached := held{realm: seen.realm, namespaces: map[string]map[string]string{"team": {corev1.LabelMetadataName: "team"}}}
			r := Reconciler{Client: cached, Namespaces: namespaces.New(heldCache{held: cached}, cached, nil, time.Minute), Instance: instance()}
			if got := r.lostGrant(t.Context(), c); got != test.want {
				t.Errorf("lostGrant() = %t", got)
			}
		})
	}
}
