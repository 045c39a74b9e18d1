package condition_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

func TestChanged(t *testing.T) {
	tests := map[string]struct {
		change func(*v1alpha1.Realm)
		want   bool
	}{
		"no change":                           {func(*v1alpha1.Realm) {}, false},
		"label":                               {func(r *v1alpha1.Realm) { r.Labels = map[string]string{"a": "b"} }, false},
		"spec":                                {func(r *v1alpha1.Realm) { r.Generation++ }, true},
		"recreated object with the same name": {func(r *v1alpha1.Realm) { r.UID = "other" }, true},
		"condition": {func(r *v1alpha1.Realm) {
			r.Status.Conditions = []metav1.Condition{of("Ready", "Unknown", "Progressing", "Wait.", now)}
		}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.Realm{Status: v1alpha1.RealmStatus{Conditions: []metav1.Condition{of("Ready", "True", "Ready", "", now)}}}
			after := before.DeepCopy()
			tc.change(after)
			if got := condition.Changed().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("Changed().Update() = %t, want %t", got, tc.want)
			}
		})
	}
}
