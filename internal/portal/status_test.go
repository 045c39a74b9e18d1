package portal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/portal"
)

func TestStateOf(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: string(v1alpha1.ConditionReady), Status: status, Reason: string(reason), Message: message, ObservedGeneration: 2}}
	}
	tests := map[string]struct {
		conditions []metav1.Condition
		generation int64
		want       portal.State
	}{
		"no conditions yet": {nil, 1, portal.State{Name: portal.StateProgressing, Kind: "busy", Message: "The operator hasn't processed the latest change yet."}},
		"stale condition":   {ready(metav1.ConditionTrue, v1alpha1.ReasonReady, ""), 3, portal.State{Name: portal.StateProgressing, Kind: "busy", Message: "The operator hasn't processed the latest change yet."}},
		"ready":             {ready(metav1.ConditionTrue, v1alpha1.ReasonReady, "Message."), 2, portal.State{Name: portal.StateReady, Kind: "good"}},
		"progressing":       {ready(metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "Waiting."), 2, portal.State{Name: portal.StateProgressing, Kind: "busy", Message: "Waiting."}},
		"suspended":         {ready(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "x"), 2, portal.State{Name: portal.StateSuspended, Kind: "off", Message: portal.CauseOf(v1alpha1.ReasonSuspended)}},
		"realm suspended":   {ready(metav1.ConditionFalse, v1alpha1.ReasonRealmSuspended, "x"), 2, portal.State{Name: portal.StateSuspended, Kind: "off", Message: portal.CauseOf(v1alpha1.ReasonRealmSuspended)}},
		"expired":           {ready(metav1.ConditionFalse, v1alpha1.ReasonExpired, "x"), 2, portal.State{Name: portal.StateExpired, Kind: "off", Message: portal.CauseOf(v1alpha1.ReasonExpired)}},
		"not ready": {
			ready(metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, `Realm "x" not found.`), 2,
			portal.State{Name: portal.StateNotReady, Kind: "bad", Message: `Realm "x" not found.`},
		},
		"not ready without a message": {
			ready(metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, ""), 2,
			portal.State{Name: portal.StateNotReady, Kind: "bad", Message: portal.CauseOf(v1alpha1.ReasonRealmNotFound)},
		},
		"reason from a newer operator": {ready(metav1.ConditionFalse, "Unknown", "Message."), 2, portal.State{Name: portal.StateNotReady, Kind: "bad", Message: "Message."}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, portal.StateOf(tc.conditions, tc.generation)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The cursor comes from the URL, so it can be any string.
func TestParseCursor(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "7.abc": "7.abc", "0.abc": "0.abc", "12.": "12.", "-1.abc": "", "20000.abc": "20000.abc", "20001.abc": "", "x.abc": "", "7": "", "7.a.b": "7.a.b",
	} {
		if got := portal.ParseCursor(value).String(); got != want {
			t.Errorf("ParseCursor(%q) = %q, want %q", value, got, want)
		}
	}
}
