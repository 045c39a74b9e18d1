// Package events records Events about Realms and ApiClients. An object's status shows its current
// state. Its Events show its history. By default, Kubernetes keeps them for an hour.
package events

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// noteLimit is the maximum length of a note in bytes. The API server rejects longer notes.
const noteLimit = 1024

// Event is an events.k8s.io Event without its regarding object.
type Event struct {
	Type   string // corev1.EventTypeNormal or corev1.EventTypeWarning
	Reason v1beta1.EventReason
	Action v1beta1.EventAction
	Note   string
}

// ReadyChange returns the Event for a new reason of the Ready condition, or nil if the reason is
// unchanged. The previous reason is empty if the object had none. Progressing gets no Event because
// it is temporary and its outcome gets one. A new object that becomes Ready gets no Event, because
// that is expected, and the Event would be a quarter of all writes for a new client.
func ReadyChange(previous v1beta1.ConditionReason, conditions []metav1.Condition) *Event {
	ready := meta.FindStatusCondition(conditions, string(v1beta1.ConditionReady))
	switch {
	case ready == nil, ready.Reason == string(previous), ready.Reason == string(v1beta1.ReasonProgressing),
		previous == "" && ready.Status == metav1.ConditionTrue:
		return nil
	}
	return &Event{
		Type:   eventType(ready),
		Reason: v1beta1.EventReason(ready.Reason),
		Action: v1beta1.EventActionReconcile,
		Note:   truncate(ready.Message),
	}
}

// eventType returns Warning for every state in which clients can't get tokens, except for
// suspension, which is requested by a user.
func eventType(ready *metav1.Condition) string {
	reason := v1beta1.ConditionReason(ready.Reason)
	if ready.Status == metav1.ConditionTrue || reason.Severity() == v1beta1.SeverityIntended && reason != v1beta1.ReasonExpired {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// Rotation returns the Event for a rotation.
func Rotation(reason v1beta1.EventReason, note string) *Event {
	return &Event{Type: corev1.EventTypeNormal, Reason: reason, Action: v1beta1.EventActionRotate, Note: truncate(note)}
}

// OldSecretInUse returns the Event for an old client secret that workloads still use. They can't get
// tokens after it expires.
func OldSecretInUse(note string) *Event {
	return &Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventOldSecretInUse, Action: v1beta1.EventActionRotate, Note: truncate(note)}
}

// Issuer returns the Event for trusted issuers that can't be resolved, or can be again.
func Issuer(reason v1beta1.EventReason, note string) *Event {
	e := &Event{Type: corev1.EventTypeNormal, Reason: reason, Action: v1beta1.EventActionResolve, Note: truncate(note)}
	if reason == v1beta1.EventIssuerNotResolved {
		e.Type = corev1.EventTypeWarning
	}
	return e
}

// Restored returns the Event for a changed reason of the Restored condition, or nil if it is unchanged
// or there is none.
func Restored(before, after []metav1.Condition) *Event {
	current, previous := meta.FindStatusCondition(after, string(v1beta1.ConditionRestored)), meta.FindStatusCondition(before, string(v1beta1.ConditionRestored))
	if current == nil || previous != nil && previous.Reason == current.Reason {
		return nil
	}
	e := &Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventReason(current.Reason), Action: v1beta1.EventActionRestore, Note: truncate(current.Message)}
	if current.Status != metav1.ConditionTrue {
		e.Type = corev1.EventTypeWarning
	}
	return e
}

// truncate shortens a note to noteLimit without splitting a character.
func truncate(note string) string {
	if len(note) <= noteLimit {
		return note
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(note[:noteLimit-len(ellipsis)], "") + ellipsis
}
