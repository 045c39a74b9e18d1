package portal_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

const day = 24 * time.Hour

// TestLists tests the overview and the list of clients. The operator is stopped, so that the tests
// can set the status of each client.
func TestLists(t *testing.T) {
	i := startInstance(t)
	i.StopOperator(t)
	b := startBrowser(t, i.portal.URL)
	team := i.Env.Namespace(t)
	now := time.Now()
	for _, c := range []struct {
		name                        string
		age, used, expires, rotates time.Duration
		ready                       metav1.ConditionStatus
		reason                      v1alpha1.ConditionReason
		oldInUse                    bool
	}{
		{name: "billing", age: 400 * day, used: 2 * time.Hour, rotates: 12 * day, ready: metav1.ConditionTrue, reason: v1alpha1.ReasonReady},
		{name: "export", age: 200 * day, used: 120 * day, ready: metav1.ConditionTrue, reason: v1alpha1.ReasonReady},
		{name: "legacy", age: 300 * day, ready: metav1.ConditionFalse, reason: v1alpha1.ReasonSuspended},
		{name: "orders", age: day, used: 10 * time.Minute, expires: 5 * day, ready: metav1.ConditionTrue, reason: v1alpha1.ReasonReady},
		{name: "search", age: 50 * day, used: 3 * day, rotates: day, ready: metav1.ConditionTrue, reason: v1alpha1.ReasonReady, oldInUse: true},
		{name: "trial", age: 10 * day, used: 9 * day, expires: -2 * day, ready: metav1.ConditionFalse, reason: v1alpha1.ReasonExpired},
		{name: "wrong", age: 3 * day, expires: 300 * day, ready: metav1.ConditionFalse, reason: v1alpha1.ReasonScopeNotInRealm},
	} {
		live := install.ApiClient(team, c.name, "acme", func(live *v1alpha1.ApiClient) { live.Spec.Description = "Owned by team " + c.name + "." })
		at := func(ago time.Duration) *metav1.Time {
			if ago == 0 {
				return nil
			}
			return &metav1.Time{Time: now.Add(-ago)}
		}
		live.Spec.ExpiresAt = at(-c.expires)
		i.Create(t, live)
		live.Status = v1alpha1.ApiClientStatus{
			Conditions: []metav1.Condition{{Type: string(v1alpha1.ConditionReady), Status: c.ready, Reason: string(c.reason), Message: "Explained.", ObservedGeneration: live.Generation, LastTransitionTime: *at(time.Hour)}},
			Secrets:    []v1alpha1.ClientSecretStatus{{ID: "a", CreatedAt: *at(c.age), LastUsedTime: at(c.used)}}, LastUsedTime: at(c.used), NextRotationTime: at(-c.rotates),
		}
		if c.oldInUse {
			live.Status.Conditions = append(live.Status.Conditions, metav1.Condition{Type: string(v1alpha1.ConditionOldSecretInUse), Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonOldSecretUsed), LastTransitionTime: *at(time.Hour)})
		}
		if err := i.Env.Client.Status().Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	b.signIn(i.admin)
	b.open("/")
	b.inspect("overview")
	b.open("/clients?namespace=" + team)
	b.inspect("list")
	b.open("/clients/new")
	b.inspect("new")
}
