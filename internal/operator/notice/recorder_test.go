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

// What an object is again after it was Progressing isn't told again.
func TestRecord(t *testing.T) {
	const isReady, isSuspended = "Normal Ready Fine.", "Normal Suspended As you wish."
	type states = [][]metav1.Condition
	for name, test := range map[string]struct {
		states states // one after the other
		want   []string
	}{
		"a new object":                  {states{nil, waits, waits, fine}, []string{isReady}},
		"a spec is taken up":            {states{fine, waits, waits, fine}, nil},
		"suspended and resumed":         {states{fine, ended, waits, fine}, []string{isSuspended, isReady}},
		"suspended while it progresses": {states{fine, waits, ended}, []string{isSuspended}},
		"from one thing to the next":    {states{fine, waits, ended, waits, ended, fine}, []string{isSuspended, isReady}},
		"a restart while it progresses": {states{waits, fine}, []string{isReady}},
		"a restart":                     {states{fine, fine}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			teller := notice.NewRecorder(recorder)
			for i, after := range test.states[1:] {
				teller.Record(named("acme", "1"), test.states[i], after, nil)
			}
			if diff := cmp.Diff(test.want, recorded(recorder)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Whether another object of the name was Ready says nothing of this one.
func TestRecordOfNamesakes(t *testing.T) {
	for name, test := range map[string]struct {
		next   client.Object
		forget bool
		want   []string
	}{
		"the same":             {next: named("acme", "1")},
		"another":              {next: named("other", "1"), want: []string{"Normal Ready Fine."}},
		"another of that name": {next: named("acme", "2"), want: []string{"Normal Ready Fine."}},
		"one that was gone":    {next: named("acme", "1"), forget: true, want: []string{"Normal Ready Fine."}},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			teller := notice.NewRecorder(recorder)
			teller.Record(named("acme", "1"), fine, waits, nil)
			if test.forget {
				teller.Forget(types.NamespacedName{Name: "acme"})
			}
			teller.Record(test.next, waits, fine, nil)
			if diff := cmp.Diff(test.want, recorded(recorder)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A rotation is told beside a change of Ready, as it stands and not as a format.
func TestRecordOfARotation(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	notice.NewRecorder(recorder).Record(named("acme", "1"), nil, fine, notice.Rotation(v1alpha1.EventSecretRotated, "100%s."))
	if diff := cmp.Diff([]string{"Normal Ready Fine.", "Normal SecretRotated 100%s."}, recorded(recorder)); diff != "" {
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
