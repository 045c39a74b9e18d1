package notice

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Recorder records the Events of the objects of one kind.
type Recorder struct {
	recorder events.EventRecorder

	mu sync.Mutex
	// paused are the objects that are Progressing, with what Ready was before. It isn't
	// told once more when it is that again. A restart forgets it, and tells.
	paused map[types.NamespacedName]paused
}

type paused struct {
	uid types.UID // not a namesake's
	was v1alpha1.ConditionReason
}

// NewRecorder returns a Recorder that knows of no object yet.
func NewRecorder(recorder events.EventRecorder) *Recorder {
	return &Recorder{recorder: recorder, paused: map[types.NamespacedName]paused{}}
}

// Tell tells what has come of an object that had these conditions before: its Ready
// condition, and a rotation, which is nil for none. It doesn't wait until the Events are written.
//
// The object is as it was read: the recorder knows one change from another by its resource
// version, and would count two Events of one version as a series.
func (t *Recorder) Record(object client.Object, before, after []metav1.Condition, rotation *Event) {
	for _, e := range []*Event{ReadyChange(t.was(object, before, after), after), rotation} {
		if e != nil {
			t.recorder.Eventf(object, nil, e.Type, string(e.Reason), string(e.Action), "%s", e.Note)
		}
	}
}

// Forget forgets an object that is gone.
func (t *Recorder) Forget(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.paused, name)
}

// was returns the reason that Ready had before, or before it became Progressing; empty where
// that isn't known.
func (t *Recorder) was(object client.Object, before, after []metav1.Condition) v1alpha1.ConditionReason {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, was := client.ObjectKeyFromObject(object), reasonIn(before)
	if was == v1alpha1.ReasonProgressing {
		was = ""
		if p := t.paused[name]; p.uid == object.GetUID() {
			was = p.was
		}
	}
	delete(t.paused, name)
	if was != "" && reasonIn(after) == v1alpha1.ReasonProgressing {
		t.paused[name] = paused{uid: object.GetUID(), was: was}
	}
	return was
}

// reasonIn returns the reason of the Ready condition; empty for none.
func reasonIn(conditions []metav1.Condition) v1alpha1.ConditionReason {
	if ready := meta.FindStatusCondition(conditions, string(v1alpha1.ConditionReady)); ready != nil {
		return v1alpha1.ConditionReason(ready.Reason)
	}
	return ""
}
