package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/inspect"
)

// The status of a large instance stays short, because objects with the same reason are one problem.
// Consequences of other problems and intended states are not problems.
func TestProblemsAreGrouped(t *testing.T) {
	notReady := func(reason v1beta1.ConditionReason) metav1.Condition {
		return plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionFalse, reason)
	}
	var clients []*v1beta1.ApiClient
	for i := range 1000 {
		clients = append(clients, plugintest.Client(fmt.Sprintf("c%03d", i), notReady(v1beta1.ReasonScopeNotInRealm)))
	}
	clients = append(clients,
		plugintest.Client("new"),
		plugintest.Client("suspended", notReady(v1beta1.ReasonSuspended)),
		plugintest.Client("expired", notReady(v1beta1.ReasonExpired)),
		plugintest.Client("follows", notReady(v1beta1.ReasonRealmNotReady)),
		plugintest.Client("paused", notReady(v1beta1.ReasonRealmSuspended)),
		plugintest.Client("weak", plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReady), plugintest.Condition(v1beta1.ConditionWeaklyHashed, metav1.ConditionTrue, v1beta1.ReasonImportedHash)),
		plugintest.Client("newer", notReady("FromNewerOperator")),
	)
	realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Status: v1beta1.RealmStatus{Conditions: []metav1.Condition{notReady(v1beta1.ReasonKeysUnreadable)}}}
	// A condition of an older generation says nothing about the latest change.
	changed := plugintest.Client("changed", notReady(v1beta1.ReasonScopeNotInRealm))
	changed.Generation = 2
	clients = append(clients, changed)
	var titles []string
	for _, p := range inspect.ProblemsOf(clients, []*v1beta1.Realm{realm}) {
		titles = append(titles, inspect.Title(p))
		if p.Message == "" || len(p.Commands) != 1 {
			t.Errorf("Problem %+v has no message or no command", p)
		}
	}
	want := []string{
		"KeysUnreadable: Realm acme",
		"FromNewerOperator: ApiClient acme/newer",
		"ScopeNotInRealm: ApiClient acme/c000, acme/c001, acme/c002, and 997 more",
		"ImportedHash: ApiClient acme/weak",
	}
	testkit.Diff(t, "Problems", want, titles)
}

// The conditions of the Instance that aren't True are problems with their remedy, and so are token servers that
// nothing waits for.
func TestProblemsOfInstance(t *testing.T) {
	instance := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName}}
	for name, test := range map[string]struct {
		status v1beta1.InstanceStatus
		want   []string // with a "!" if it is not only a warning
	}{
		"healthy": {v1beta1.InstanceStatus{
			Conditions:   []metav1.Condition{plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReady)},
			TokenServers: []v1beta1.TokenServerStatus{{Name: "a", State: v1beta1.TokenServerCurrent}, {Name: "b", State: v1beta1.TokenServerStarting}},
		}, nil},
		"no token server": {v1beta1.InstanceStatus{
			Conditions: []metav1.Condition{plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNoTokenServer)},
		}, []string{"!NoTokenServer: Instance realmkeeper"}},
		"a token server lags": {v1beta1.InstanceStatus{
			Conditions: []metav1.Condition{plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionUnknown, v1beta1.ReasonProgressing)},
		}, []string{"Progressing: Instance realmkeeper"}},
		"warnings": {v1beta1.InstanceStatus{
			Conditions: []metav1.Condition{
				plugintest.Condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReady),
				plugintest.Condition(v1beta1.ConditionCertificatesIssued, metav1.ConditionFalse, v1beta1.ReasonCAUnusable),
				plugintest.Condition(v1beta1.ConditionKMSConnected, metav1.ConditionFalse, v1beta1.ReasonKMSUnavailable),
			},
			TokenServers: []v1beta1.TokenServerStatus{{Name: "a", State: v1beta1.TokenServerStale, Message: "Message."}},
		}, []string{"CAUnusable: Instance realmkeeper", "KMSUnavailable: Instance realmkeeper", "Token server a is stale"}},
	} {
		t.Run(name, func(t *testing.T) {
			instance.Status = test.status
			instance.Status.SystemNamespace = "system"
			var titles []string
			for _, p := range inspect.InstanceProblems(instance) {
				title := inspect.Title(p)
				if !p.Warning {
					title = "!" + title
				}
				titles = append(titles, title)
				if p.Message == "" || p.Action == "" || len(p.Commands) == 0 {
					t.Errorf("Problem %+v lacks a part", p)
				}
			}
			testkit.Diff(t, "Problems", test.want, titles)
		})
	}
	if got := inspect.InstanceProblems(nil); got != nil {
		t.Errorf("Problems of an Instance that is missing: %+v", got)
	}
}

// Without an operator, the Instance looks as healthy as it was.
func TestStoppedOperatorIsProblem(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		stopped time.Time
		ready   int32
		want    string
	}{
		"it works":                {time.Time{}, 1, ""},
		"no replica is ready":     {time.Time{}, 0, "0 of 1 replicas are ready."},
		"the Lease isn't renewed": {now.Add(-72 * time.Hour), 1, "The leader Lease was last renewed 3d ago."},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if found := inspect.OperatorProblems(test.stopped, now, test.ready); len(found) == 1 {
				got = strings.SplitAfter(found[0].Message, ".")[0]
			}
			testkit.Diff(t, "problem", test.want, got)
		})
	}
}
