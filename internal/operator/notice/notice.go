// Package notice tells people by Events how an object of ours changes. Status says how it
// is; Events, which the cluster keeps for an hour or so, say what it went through.
package notice

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// noteLimit is how many bytes the API server allows in a note.
const noteLimit = 1024

// Event is an Event of events.k8s.io, but for the object that it regards.
type Event struct {
	Type   string // corev1.EventTypeNormal or corev1.EventTypeWarning
	Reason v1alpha1.EventReason
	Action v1alpha1.EventAction
	Note   string
}

// ReadyChange returns the Event that tells of another reason of the Ready condition than was,
// which is empty for none; nil where there is nothing to tell. Progressing isn't told: it passes by
// itself, and what it comes to is told.
func ReadyChange(was v1alpha1.ConditionReason, now []metav1.Condition) *Event {
	ready := meta.FindStatusCondition(now, string(v1alpha1.ConditionReady))
	if ready == nil || ready.Reason == string(was) || ready.Reason == string(v1alpha1.ReasonProgressing) {
		return nil
	}
	return &Event{
		Type:   eventType(ready),
		Reason: v1alpha1.EventReason(ready.Reason),
		Action: v1alpha1.EventActionReconcile,
		Note:   cut(ready.Message),
	}
}

// eventType warns of whatever keeps tokens from someone, but for a suspension, which
// somebody has just asked for.
func eventType(ready *metav1.Condition) string {
	if ready.Status == metav1.ConditionTrue || ready.Reason == string(v1alpha1.ReasonSuspended) {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// Rotation returns the Event that tells of a rotation.
func Rotation(reason v1alpha1.EventReason, note string) *Event {
	return &Event{Type: corev1.EventTypeNormal, Reason: reason, Action: v1alpha1.EventActionRotate, Note: cut(note)}
}

// cut shortens a note to what the API server allows: it refuses a longer one.
func cut(note string) string {
	if len(note) <= noteLimit {
		return note
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(note[:noteLimit-len(ellipsis)], "") + ellipsis
}
