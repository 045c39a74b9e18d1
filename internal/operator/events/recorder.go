package events

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Events about objects.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Recorder records Events for objects of one kind. It is safe for concurrent use.
type Recorder struct {
	recorder events.EventRecorder

	mu sync.Mutex
	// progressing holds the reason that Ready had before the object became Progressing. If Ready
	// returns to that reason, there is no second Event. This state is lost on restart, so an Event
	// may be repeated.
	progressing map[types.NamespacedName]previousReady
}

type previousReady struct {
	uid    types.UID // distinguishes the object from a new one with the same name
	reason v1beta1.ConditionReason
}

// NewRecorder returns a Recorder that writes to recorder.
func NewRecorder(recorder events.EventRecorder) *Recorder {
	return &Recorder{recorder: recorder, progressing: map[types.NamespacedName]previousReady{}}
}

// Record records Events for a change to an object's conditions, and the given Events that aren't
// nil. It does not wait for the Events to be written.
//
// The object must be the version that was read before the change. The event recorder distinguishes
// changes by resource version and would merge two Events for the same version into a series.
func (r *Recorder) Record(object client.Object, before, after []metav1.Condition, more ...*Event) {
	for _, e := range append([]*Event{ReadyChange(r.previousReason(object, before, after), after)}, more...) {
		if e != nil {
			r.recorder.Eventf(object, nil, e.Type, string(e.Reason), string(e.Action), "%s", e.Note)
		}
	}
}

// Forget discards the state of a deleted object.
func (r *Recorder) Forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.progressing, name)
}

// previousReason returns the reason that Ready had before, ignoring Progressing. It is empty if
// that reason is unknown.
func (r *Recorder) previousReason(object client.Object, before, after []metav1.Condition) v1beta1.ConditionReason {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, reason := client.ObjectKeyFromObject(object), readyReason(before)
	if reason == v1beta1.ReasonProgressing {
		reason = ""
		if p := r.progressing[name]; p.uid == object.GetUID() {
			reason = p.reason
		}
	}
	delete(r.progressing, name)
	if reason != "" && readyReason(after) == v1beta1.ReasonProgressing {
		r.progressing[name] = previousReady{uid: object.GetUID(), reason: reason}
	}
	return reason
}

// readyReason returns the reason of the Ready condition, or an empty string if there is none.
func readyReason(conditions []metav1.Condition) v1beta1.ConditionReason {
	if ready := meta.FindStatusCondition(conditions, string(v1beta1.ConditionReady)); ready != nil {
		return v1beta1.ConditionReason(ready.Reason)
	}
	return ""
}
