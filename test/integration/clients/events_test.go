package clients_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

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
