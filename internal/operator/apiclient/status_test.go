package apiclient

import (
	"crypto/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// Only a failure of the Realm is one that GitOps tools wait for. Its suspension is intended, and is over
// when the Realm is Ready again.
func TestReadyFollowsRealm(t *testing.T) {
	for name, test := range map[string]struct {
		status     metav1.ConditionStatus // of the Realm; empty without a Ready condition
		reason     v1alpha1.ConditionReason
		change     func(*observed)
		want       metav1.ConditionStatus
		wantReason v1alpha1.ConditionReason
	}{
		"new":       {want: metav1.ConditionUnknown, wantReason: v1alpha1.ReasonProgressing},
		"working":   {status: metav1.ConditionUnknown, reason: v1alpha1.ReasonProgressing, want: metav1.ConditionUnknown, wantReason: v1alpha1.ReasonProgressing},
		"ready":     {status: metav1.ConditionTrue, reason: v1alpha1.ReasonReady, want: metav1.ConditionTrue, wantReason: v1alpha1.ReasonReady},
		"suspended": {status: metav1.ConditionFalse, reason: v1alpha1.ReasonSuspended, want: metav1.ConditionFalse, wantReason: v1alpha1.ReasonRealmSuspended},
		"suspended since": {
			status: metav1.ConditionTrue, reason: v1alpha1.ReasonReady, change: func(s *observed) { s.realm.Spec.Suspend = true },
			want: metav1.ConditionFalse, wantReason: v1alpha1.ReasonRealmSuspended,
		},
		"failed": {status: metav1.ConditionFalse, reason: v1alpha1.ReasonKeysUnreadable, want: metav1.ConditionFalse, wantReason: v1alpha1.ReasonRealmNotReady},
		"suspended, as the client": {
			status: metav1.ConditionFalse, reason: v1alpha1.ReasonSuspended, change: func(s *observed) { s.client.Spec.Suspend = true },
			want: metav1.ConditionFalse, wantReason: v1alpha1.ReasonSuspended,
		},
		"suspended, with a client that is not granted": {
			status: metav1.ConditionFalse, reason: v1alpha1.ReasonSuspended, change: func(s *observed) { s.client.Spec.Scopes = v1alpha1.Scopes{"write"} },
			want: metav1.ConditionFalse, wantReason: v1alpha1.ReasonScopeNotInRealm,
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(func(s *observed) {
				if test.status != "" {
					s.realm.Status.Conditions = []metav1.Condition{{Type: string(v1alpha1.ConditionReady), Status: test.status, Reason: string(test.reason)}}
				}
				if test.change != nil {
					test.change(s)
				}
			})
			d := testkit.Value(decide(&seen, now, rand.Reader))(t)
			conditions := status(&seen, d, applied{recorded: true, state: new(acknowledgement.Acknowledged)}, now).Conditions
			ready := meta.FindStatusCondition(conditions, string(v1alpha1.ConditionReady))
			if ready.Status != test.want || ready.Reason != string(test.wantReason) {
				t.Errorf("Ready is %s: %s: %s; want %s: %s", ready.Status, ready.Reason, ready.Message, test.want, test.wantReason)
			}
			stalled := meta.IsStatusConditionTrue(conditions, string(v1alpha1.ConditionStalled))
			if stalled != (test.wantReason == v1alpha1.ReasonScopeNotInRealm) {
				t.Errorf("Stalled: %t with the reason %s", stalled, ready.Reason)
			}
		})
	}
}
