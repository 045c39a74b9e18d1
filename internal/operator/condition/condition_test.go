package condition_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

var (
	earlier = metav1.NewTime(time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))
	now     = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
)

// of returns a condition with observed generation 2.
func of(kind string, status metav1.ConditionStatus, reason, message string, at metav1.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 2, LastTransitionTime: at}
}

func TestSummarize(t *testing.T) {
	tests := map[string]struct {
		before []metav1.Condition
		result condition.Result
		want   []metav1.Condition
	}{
		"ready removes Reconciling and Stalled": {
			before: []metav1.Condition{
				of("Ready", "Unknown", "Progressing", "Wait.", earlier), of("Reconciling", "True", "Progressing", "Wait.", earlier), of("Stalled", "True", "X", "", earlier),
			},
			result: condition.Ready("All good."),
			want:   []metav1.Condition{of("Ready", "True", "Ready", "All good.", now)},
		},
		"not ready and stuck": {
			result: condition.NotReady(v1beta1.ReasonSecretConflict, "Delete the Secret."),
			want:   []metav1.Condition{of("Ready", "False", "SecretConflict", "Delete the Secret.", now), of("Stalled", "True", "SecretConflict", "Delete the Secret.", now)},
		},
		"not ready but not stuck": {
			result: condition.NotReady(v1beta1.ReasonNoTokenServer, "Suspended."),
			want:   []metav1.Condition{of("Ready", "False", "NoTokenServer", "Suspended.", now)},
		},
		"new message keeps the transition time": {
			before: []metav1.Condition{of("Ready", "True", "Ready", "All good.", earlier)},
			result: condition.Ready("Better."),
			want:   []metav1.Condition{of("Ready", "True", "Ready", "Better.", earlier)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			set := condition.NewSet(tc.before, 2, now)
			set.Summarize(tc.result)
			testkit.Diff(t, "result", tc.want, set.Conditions())
		})
	}
}

func TestSetKeepsOnlyWhatWasPut(t *testing.T) {
	before := []metav1.Condition{
		of("Accepted", "True", "Accepted", "Valid.", earlier), of("Obsolete", "True", "X", "", earlier), of("Programmed", "Unknown", "Progressing", "Wait.", earlier),
	}
	kept := append([]metav1.Condition{}, before...)
	set := condition.NewSet(before, 2, now)
	set.Summarize(condition.Ready("All good."))
	set.Put(v1beta1.ConditionProgrammed, condition.Ready("Loaded."))
	set.Put(v1beta1.ConditionAccepted, condition.Result{Status: "True", Reason: v1beta1.ReasonAccepted, Message: "Valid."})
	want := []metav1.Condition{
		of("Accepted", "True", "Accepted", "Valid.", earlier), of("Programmed", "True", "Ready", "Loaded.", now), of("Ready", "True", "Ready", "All good.", now),
	}
	testkit.Diff(t, "result", want, set.Conditions())
	testkit.Diff(t, "the input was modified", kept, before)
}

func TestChanged(t *testing.T) {
	tests := map[string]struct {
		change func(*v1beta1.Realm)
		want   bool
	}{
		"no change":                           {func(*v1beta1.Realm) {}, false},
		"label":                               {func(r *v1beta1.Realm) { r.Labels = map[string]string{"a": "b"} }, false},
		"spec":                                {func(r *v1beta1.Realm) { r.Generation++ }, true},
		"recreated object with the same name": {func(r *v1beta1.Realm) { r.UID = "other" }, true},
		"condition": {func(r *v1beta1.Realm) {
			r.Status.Conditions = []metav1.Condition{of("Ready", "Unknown", "Progressing", "Wait.", now)}
		}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := &v1beta1.Realm{Status: v1beta1.RealmStatus{Conditions: []metav1.Condition{of("Ready", "True", "Ready", "", now)}}}
			after := before.DeepCopy()
			tc.change(after)
			if got := condition.Changed().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("Changed().Update() = %t, want %t", got, tc.want)
			}
		})
	}
}
