package events_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	k8sevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
)

func ready(status metav1.ConditionStatus, reason v1beta1.ConditionReason, message string) []metav1.Condition {
	return []metav1.Condition{
		{Type: string(v1beta1.ConditionProgrammed), Status: "True", Reason: string(v1beta1.ReasonReady), Message: "Another condition."},
		{Type: string(v1beta1.ConditionReady), Status: status, Reason: string(reason), Message: message},
	}
}

var (
	isReady       = ready("True", v1beta1.ReasonReady, "Good.")
	isProgressing = ready("Unknown", v1beta1.ReasonProgressing, "Wait.")
	isSuspended   = ready("False", v1beta1.ReasonSuspended, "Suspended.")
)

func TestReadyChange(t *testing.T) {
	event := func(kind string, reason v1beta1.ConditionReason, note string) *events.Event {
		return &events.Event{Type: kind, Reason: v1beta1.EventReason(reason), Action: v1beta1.EventActionReconcile, Note: note}
	}
	for name, test := range map[string]struct {
		previous   v1beta1.ConditionReason
		conditions []metav1.Condition
		want       *events.Event
	}{
		"no Ready condition":               {v1beta1.ReasonReady, nil, nil},
		"new object is suspended":          {"", isSuspended, event("Normal", v1beta1.ReasonSuspended, "Suspended.")},
		"no change":                        {v1beta1.ReasonReady, isReady, nil},
		"becomes Progressing":              {v1beta1.ReasonReady, isProgressing, nil},
		"resumed":                          {v1beta1.ReasonSuspended, isReady, event("Normal", v1beta1.ReasonReady, "Good.")},
		"realm suspended":                  {v1beta1.ReasonReady, ready("False", v1beta1.ReasonRealmSuspended, "Suspended."), event("Normal", v1beta1.ReasonRealmSuspended, "Suspended.")},
		"expired":                          {v1beta1.ReasonReady, ready("False", v1beta1.ReasonExpired, "Expired."), event("Warning", v1beta1.ReasonExpired, "Expired.")},
		"not ready for a different reason": {v1beta1.ReasonExpired, ready("False", v1beta1.ReasonScopeNotInRealm, "Remove the scope."), event("Warning", v1beta1.ReasonScopeNotInRealm, "Remove the scope.")},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "result", test.want, events.ReadyChange(test.previous, test.conditions))
		})
	}
}

func TestNoteIsTruncated(t *testing.T) {
	for name, test := range map[string]struct {
		note, want string
	}{
		"maximum length":           {strings.Repeat("é", 512), strings.Repeat("é", 512)},
		"limit within a character": {strings.Repeat("é", 513), strings.Repeat("é", 510) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			rotation, change := events.Rotation(v1beta1.EventSecretRotated, test.note), events.ReadyChange("", ready("False", v1beta1.ReasonExpired, test.note))
			if rotation.Note != test.want || change.Note != test.want {
				t.Errorf("notes are %q and %q, want %q", rotation.Note, change.Note, test.want)
			}
		})
	}
}

// An object that returns to its previous state after Progressing gets no second Event.
func TestRecordIgnoresProgressing(t *testing.T) {
	const readyEvent, suspendedEvent = "Normal Ready Good.", "Normal Suspended Suspended."
	type states = [][]metav1.Condition
	for name, test := range map[string]struct {
		states states // in chronological order
		want   []string
	}{
		"spec changed":                  {states{isReady, isProgressing, isProgressing, isReady}, nil},
		"suspended while Progressing":   {states{isReady, isProgressing, isSuspended}, []string{suspendedEvent}},
		"suspended, edited and resumed": {states{isReady, isProgressing, isSuspended, isProgressing, isSuspended, isReady}, []string{suspendedEvent, readyEvent}},
		"restart while Progressing":     {states{isProgressing, isReady}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := k8sevents.NewFakeRecorder(10)
			r := events.NewRecorder(recorder)
			for i, after := range test.states[1:] {
				r.Record(named("acme", "1"), test.states[i], after)
			}
			testkit.Diff(t, "result", test.want, recorded(recorder))
		})
	}
}

// The state of a deleted object does not affect a new object with the same name.
func TestRecordDistinguishesObjects(t *testing.T) {
	suspended := []string{"Normal Suspended Suspended."}
	for name, test := range map[string]struct {
		next   client.Object
		forget bool
		want   []string
	}{
		"same object":              {next: named("acme", "1")},
		"another name":             {next: named("other", "1"), want: suspended},
		"same name, different UID": {next: named("acme", "2"), want: suspended},
		"same object, forgotten":   {next: named("acme", "1"), forget: true, want: suspended},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := k8sevents.NewFakeRecorder(10)
			r := events.NewRecorder(recorder)
			r.Record(named("acme", "1"), isSuspended, isProgressing)
			if test.forget {
				r.Forget(types.NamespacedName{Name: "acme"})
			}
			r.Record(test.next, isProgressing, isSuspended)
			testkit.Diff(t, "result", test.want, recorded(recorder))
		})
	}
}

// A rotation gets its own Event. Its note is not used as a format string.
func TestRecordRotation(t *testing.T) {
	recorder := k8sevents.NewFakeRecorder(10)
	events.NewRecorder(recorder).Record(named("acme", "1"), nil, isSuspended, events.Rotation(v1beta1.EventSecretRotated, "100%s."))
	testkit.Diff(t, "result", []string{"Normal Suspended Suspended.", "Normal SecretRotated 100%s."}, recorded(recorder))
}

func named(name string, uid types.UID) client.Object {
	return &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

func recorded(recorder *k8sevents.FakeRecorder) []string {
	var all []string
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	return all
}
