package clients_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// The operator records one Event for each change to a Realm or an ApiClient, with the message of
// its condition. Failed writes and restarts don't lead to duplicate Events.
func TestOneEventPerChange(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600})
	proxy := inst.StartFaultProxy(t, install.Faults{Of: func(write install.Write) install.Fault {
		if write.Number%3 == 0 {
			return install.Rejected
		}
		return install.NoFault
	}})
	inst.StartOperator(t, inst.KubeconfigFor(t, proxy.URL))
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	realm := install.Realm("acme", func(r *v1alpha1.Realm) { r.Spec.Suspend = true })
	c := install.ApiClient(cluster.Namespace(t), "billing", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	inst.Create(t, realm, c)
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonRealmSuspended)
	ofRealm, ofClient := eventsOf(t, inst, realm), eventsOf(t, inst, c)

	install.Change(t, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = false })
	ofRealm.expectMore(t, "Normal Ready")
	ofClient.expectMore(t, "Normal Ready")
	install.Change(t, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = true })
	ofRealm.expectMore(t, "Normal Suspended")
	ofClient.expectMore(t, "Normal RealmSuspended")
	install.Change(t, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = false })
	ofRealm.expectMore(t, "Normal Ready")
	ofClient.expectMore(t, "Normal Ready")
	install.Change(t, inst, realm, func(r *v1alpha1.Realm) {
		r.Spec.Signing.RotateAfter = &metav1.Time{Time: r.Status.SigningKeys[0].CreatedAt.Add(time.Second)}
	})
	ofRealm.expectMore(t, "Normal SigningKeyRotated")
	scenario.RotateSecret(t, inst, c)
	scenario.AwaitSecretRotated(t, inst, c)
	ofClient.expectMore(t, "Normal SecretRotated")
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) {
		c.Spec.Audiences = []string{"a" + strings.Repeat("b", 255), "c" + strings.Repeat("d", 255), "e" + strings.Repeat("f", 255), "g" + strings.Repeat("h", 255)}
	})
	ofClient.expectMore(t, "Warning AudienceNotInRealm") // its message exceeds the maximum length of an Event note
	inst.Delete(t, realm)
	ofClient.expectMore(t, "Warning RealmNotFound")

	inst.StopOperator(t)
	inst.StartOperator(t, "")
	// Once the operator has reconciled this new object, it has also handled all existing ones.
	probe := install.ApiClient(c.Namespace, "probe", "missing")
	inst.Create(t, probe)
	eventsOf(t, inst, probe)
	inst.AwaitSettled(t)
	ofRealm.expectMore(t)
	ofClient.expectMore(t)
}

// eventLog contains the Events about an object in chronological order.
type eventLog struct {
	inst   *install.Installation
	object client.Object
	seen   []string // type and reason of each Event
}

// eventsOf waits for the Events about a new object. The reason of the last Event must match the
// object's status. An object that became Ready has no Event.
func eventsOf(t *testing.T, inst *install.Installation, obj client.Object) *eventLog {
	t.Helper()
	l := &eventLog{inst: inst, object: obj}
	install.Eventually(t, "the Events of "+obj.GetName(), func() error {
		events := l.events(t)
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(install.Conditions(obj), string(v1alpha1.ConditionReady))
		silent := len(events) == 0 && ready != nil && ready.Status == metav1.ConditionTrue
		if !silent && (len(events) == 0 || ready == nil || events[len(events)-1].Reason != ready.Reason) {
			return fmt.Errorf("Ready is %v, and the Events are %v", ready, events)
		}
		l.seen = summaries(events)
		return nil
	})
	return l
}

// expectMore waits until exactly the given Events have been added to the earlier ones.
func (l *eventLog) expectMore(t *testing.T, more ...string) {
	t.Helper()
	want := append(slices.Clone(l.seen), more...)
	var events []eventsv1.Event
	install.Eventually(t, "more Events of "+l.object.GetName(), func() error {
		events = l.events(t)
		if diff := gocmp.Diff(want, summaries(events)); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
	l.seen = want
	for _, e := range events[len(events)-len(more):] {
		l.check(t, e)
	}
}

// check checks all fields of an Event except its type and reason.
func (l *eventLog) check(t *testing.T, e eventsv1.Event) {
	t.Helper()
	if e.Action == "" || e.ReportingController != v1alpha1.EventController || e.Series != nil || e.Regarding.APIVersion != v1alpha1.GroupVersion.String() {
		t.Errorf("an Event about %s has unexpected fields: %+v", l.object.GetName(), e)
	}
	if e.Action == string(v1alpha1.EventActionRotate) {
		return
	}
	if err := l.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(l.object), l.object); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(install.Conditions(l.object), string(v1alpha1.ConditionReady))
	beginning, shortened := strings.CutSuffix(e.Note, "...")
	same := e.Note == ready.Message || shortened && strings.HasPrefix(ready.Message, beginning)
	if e.Reason == ready.Reason && !same {
		t.Errorf("the note of Event %s is %q, want the message of the condition: %q", e.Reason, e.Note, ready.Message)
	}
}

func (l *eventLog) events(t *testing.T) []eventsv1.Event {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := l.inst.Env.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	mine := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.UID != l.object.GetUID() })
	slices.SortFunc(mine, func(a, b eventsv1.Event) int { return cmp.Compare(a.EventTime.UnixNano(), b.EventTime.UnixNano()) })
	return mine
}

// summaries returns the type and reason of each Event.
func summaries(events []eventsv1.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Type+" "+e.Reason)
	}
	return all
}
