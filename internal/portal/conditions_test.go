package portal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/portal"
)

// The kind selects the color. Only conditions that prevent tokens are shown as failures.
func TestConditionKinds(t *testing.T) {
	tests := map[string]struct {
		condition v1alpha1.ConditionType
		status    metav1.ConditionStatus
		reason    v1alpha1.ConditionReason
		want      string
	}{
		"not ready yet":     {v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "busy"},
		"suspended":         {v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "off"},
		"stalled":           {v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRealmNotFound, "bad"},
		"imported hash":     {v1alpha1.ConditionWeakHash, metav1.ConditionTrue, v1alpha1.ReasonImportedHash, "busy"},
		"old secret in use": {v1alpha1.ConditionOldSecretInUse, metav1.ConditionTrue, v1alpha1.ReasonOldSecretUsed, "busy"},
		"restored":          {v1alpha1.ConditionRestored, metav1.ConditionTrue, v1alpha1.ReasonRestoredFromBackup, "good"},
		// Token servers keep the last keys of an issuer, so the realm stays Ready.
		"issuer not resolved": {v1alpha1.ConditionIssuersResolved, metav1.ConditionFalse, v1alpha1.ReasonIssuerNotResolved, "busy"},
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

// Several conditions have the same reason, so a remedy and a message are shown with the first of them
// only.
func TestRemedyIsShownOnce(t *testing.T) {
	views := conditionsOf(
		condition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, "Another message."),
		condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, `Realm "acme" not found.`),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound, `Realm "acme" not found.`),
	)
	if len(views) != 3 || views[0].Name != "Ready" || views[1].Remedy != nil || views[2].Remedy != nil {
		t.Fatalf("got %+v, want Ready first and the only remedy there", views)
	}
	if views[1].Message != "" || views[2].Message != "Another message." {
		t.Errorf("got the messages %q and %q, want only the second", views[1].Message, views[2].Message)
	}
	want := []portal.CommandView{{ID: "Ready-command-0", Text: "kubectl get realms"}}
	if first := views[0]; first.Message != `Realm "acme" not found.` || first.Remedy == nil || first.Remedy.Action == "" {
		t.Errorf("got %+v, want the message of the condition and a remedy", first)
	} else if diff := cmp.Diff(want, first.Remedy.Commands); diff != "" {
		t.Error(diff)
	}
}

// A newer operator may use reasons and conditions that this version doesn't know.
func TestUnknownConditions(t *testing.T) {
	views := conditionsOf(
		condition("Unknown", metav1.ConditionTrue, "Unknown", "x"),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "Unknown", "Details."),
	)
	if len(views) != 1 || views[0].Message != "Details." || views[0].Remedy != nil {
		t.Errorf("got %+v, want only Ready with its message", views)
	}
}

func condition(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: message}
}

func conditionsOf(conditions ...metav1.Condition) []portal.ConditionView {
	c := &v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-apps", Name: "billing"}}
	c.Spec.RealmRef.Name = "acme"
	realm := &v1alpha1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	if len(conditions) == 1 && conditions[0].Type == string(v1alpha1.ConditionIssuersResolved) {
		return portal.ConditionsOf(conditions, portal.RealmRemedies(realm))
	}
	return portal.ConditionsOf(conditions, portal.ClientRemedies(c, func() *v1alpha1.Realm { return nil }))
}
