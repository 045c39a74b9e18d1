package notice_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
)

// An object that returns to its previous state after Progressing gets no second Event.
func TestRecordIgnoresProgressing(t *testing.T) {
	const readyEvent, suspendedEvent = "Normal Ready Good.", "Normal Suspended Suspended."
	type states = [][]metav1.Condition
	for name, test := range map[string]struct {
		states states // in chronological order
		want   []string
	}{
		"new object":                    {states{nil, isProgressing, isProgressing, isReady}, nil},
		"new suspended object":          {states{nil, isProgressing, isSuspended, isReady}, []string{suspendedEvent, readyEvent}},
		"spec changed":                  {states{isReady, isProgressing, isProgressing, isReady}, nil},
		"suspended and resumed":         {states{isReady, isSuspended, isProgressing, isReady}, []string{suspendedEvent, readyEvent}},
		"suspended while Progressing":   {states{isReady, isProgressing, isSuspended}, []string{suspendedEvent}},
		"suspended, edited and resumed": {states{isReady, isProgressing, isSuspended, isProgressing, isSuspended, isReady}, []string{suspendedEvent, readyEvent}},
		"restart while Progressing":     {states{isProgressing, isReady}, nil},
		"restart":                       {states{isReady, isReady}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			r := notice.NewRecorder(recorder)
			for i, after := range test.states[1:] {
				r.Record(named("acme", "1"), test.states[i], after)
			}
			if diff := cmp.Diff(test.want, recorded(recorder)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
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
			recorder := events.NewFakeRecorder(10)
			r := notice.NewRecorder(recorder)
			r.Record(named("acme", "1"), isSuspended, isProgressing)
			if test.forget {
				r.Forget(types.NamespacedName{Name: "acme"})
			}
			r.Record(test.next, isProgressing, isSuspended)
			if diff := cmp.Diff(test.want, recorded(recorder)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A rotation gets its own Event. Its note is not used as a format string.
func TestRecordRotation(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	notice.NewRecorder(recorder).Record(named("acme", "1"), nil, isSuspended, notice.Rotation(v1alpha1.EventSecretRotated, "100%s."))
	if diff := cmp.Diff([]string{"Normal Suspended Suspended.", "Normal SecretRotated 100%s."}, recorded(recorder)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func named(name string, uid types.UID) client.Object {
	return &v1alpha1.Realm{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

func recorded(recorder *events.FakeRecorder) []string {
	var all []string
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	return all
}
