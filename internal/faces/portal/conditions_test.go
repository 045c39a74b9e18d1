package portal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
)

// The kind selects the color. Only conditions that prevent tokens are shown as failures.
func TestConditionKinds(t *testing.T) {
	tests := map[string]struct {
		condition v1beta1.ConditionType
		status    metav1.ConditionStatus
		reason    v1beta1.ConditionReason
		want      string
	}{
		"not ready yet": {v1beta1.ConditionReady, metav1.ConditionUnknown, v1beta1.ReasonProgressing, "busy"},
		"stalled":       {v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonRealmNotFound, "bad"},
		"imported hash": {v1beta1.ConditionWeaklyHashed, metav1.ConditionTrue, v1beta1.ReasonImportedHash, "busy"},
		"restored":      {v1beta1.ConditionRestored, metav1.ConditionTrue, v1beta1.ReasonRestoredFromBackup, "good"},
		// Token servers keep the last keys of an issuer, so the realm stays Ready.
		"issuer not resolved": {v1beta1.ConditionIssuersResolved, metav1.ConditionFalse, v1beta1.ReasonIssuerNotResolved, "busy"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			views := conditionsOf(condition(tc.condition, tc.status, tc.reason, "Details."))
			if len(views) != 1 {
				t.Fatalf("got %d conditions, want 1", len(views))
			}
			if got := views[0]; got.Kind != tc.want || got.Name != string(tc.condition) || got.Reason != string(tc.reason) || got.Label == "" {
				t.Errorf("got %+v, want the name, the reason, and kind %s", got, tc.want)
			}
			if remedy := views[0].Remedy; (remedy == nil) != (tc.want == "good") {
				t.Errorf("got the remedy %+v for kind %s", remedy, tc.want)
			}
		})
	}
}

// A newer operator may use reasons and conditions that this version doesn't know.
func TestUnknownConditions(t *testing.T) {
	views := conditionsOf(
		condition("Unknown", metav1.ConditionTrue, "Unknown", "x"),
		condition(v1beta1.ConditionReady, metav1.ConditionFalse, "Unknown", "Details."),
	)
	if len(views) != 1 || views[0].Message != "Details." || views[0].Remedy != nil {
		t.Errorf("got %+v, want only Ready with its message", views)
	}
}

func condition(kind v1beta1.ConditionType, status metav1.ConditionStatus, reason v1beta1.ConditionReason, message string) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: message}
}

func conditionsOf(conditions ...metav1.Condition) []portal.ConditionView {
	c := &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-apps", Name: "billing"}}
	c.Spec.RealmRef.Name = "acme"
	realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	if len(conditions) == 1 && conditions[0].Type == string(v1beta1.ConditionIssuersResolved) {
		return portal.ConditionsOf(conditions, portal.RealmRemedies(realm))
	}
	return portal.ConditionsOf(conditions, portal.ClientRemedies(c, func() *v1beta1.Realm { return nil }))
}

func TestStateOf(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason v1beta1.ConditionReason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: string(v1beta1.ConditionReady), Status: status, Reason: string(reason), Message: message, ObservedGeneration: 2}}
	}
	tests := map[string]struct {
		conditions []metav1.Condition
		generation int64
		want       portal.State
	}{
		"stale condition": {ready(metav1.ConditionTrue, v1beta1.ReasonReady, ""), 3, portal.State{Name: portal.StateProgressing, Kind: "busy", Message: "The operator hasn't processed the latest change yet."}},
		"ready":           {ready(metav1.ConditionTrue, v1beta1.ReasonReady, "Message."), 2, portal.State{Name: portal.StateReady, Kind: "good"}},
		"suspended":       {ready(metav1.ConditionFalse, v1beta1.ReasonSuspended, "x"), 2, portal.State{Name: portal.StateSuspended, Kind: "off", Message: portal.CauseOf(v1beta1.ReasonSuspended)}},
		"expired":         {ready(metav1.ConditionFalse, v1beta1.ReasonExpired, "x"), 2, portal.State{Name: portal.StateExpired, Kind: "off", Message: portal.CauseOf(v1beta1.ReasonExpired)}},
		"not ready": {
			ready(metav1.ConditionFalse, v1beta1.ReasonRealmNotFound, `Realm "x" not found.`), 2,
			portal.State{Name: portal.StateNotReady, Kind: "bad", Message: `Realm "x" not found.`},
		},
		"not ready without a message": {
			ready(metav1.ConditionFalse, v1beta1.ReasonRealmNotFound, ""), 2,
			portal.State{Name: portal.StateNotReady, Kind: "bad", Message: portal.CauseOf(v1beta1.ReasonRealmNotFound)},
		},
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
