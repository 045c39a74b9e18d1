// Package condition builds status conditions that kstatus and kubectl wait understand.
package condition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Result is the outcome of a check: a condition without its type and times.
type Result struct {
	Status  metav1.ConditionStatus
	Reason  v1beta1.ConditionReason
	Message string
}

// Ready returns the result of a successful check.
func Ready(message string) Result {
	return Result{metav1.ConditionTrue, v1beta1.ReasonReady, message}
}

// Progressing returns the result of work that completes without user action.
func Progressing(message string) Result {
	return Result{metav1.ConditionUnknown, v1beta1.ReasonProgressing, message}
}

// NotReady returns the result of a failed check, or of a state that a user requested, such as a
// suspension.
func NotReady(reason v1beta1.ConditionReason, message string) Result {
	return Result{metav1.ConditionFalse, reason, message}
}

// Set collects the new conditions of an object. Conditions that are not set again are removed. A
// condition keeps its transition time until its status changes.
type Set struct {
	before     []metav1.Condition
	after      []metav1.Condition
	generation int64
	now        metav1.Time
}

// NewSet returns an empty set for an object whose current conditions are before. It does not modify
// before.
func NewSet(before []metav1.Condition, generation int64, now metav1.Time) *Set {
	return &Set{before: before, generation: generation, now: now}
}

// Put sets the condition of the given type.
func (s *Set) Put(kind v1beta1.ConditionType, r Result) {
	if old := meta.FindStatusCondition(s.before, string(kind)); old != nil {
		meta.SetStatusCondition(&s.after, *old)
	}
	meta.SetStatusCondition(&s.after, metav1.Condition{
		Type:               string(kind),
		Status:             r.Status,
		ObservedGeneration: s.generation,
		LastTransitionTime: s.now,
		Reason:             string(r.Reason),
		Message:            r.Message,
	})
}

// Summarize sets the Ready condition to r. It adds Reconciling if the status is Unknown, and
// Stalled if the status is False and the reason is an error.
func (s *Set) Summarize(r Result) {
	s.Put(v1beta1.ConditionReady, r)
	switch {
	case r.Status == metav1.ConditionUnknown:
		s.Put(v1beta1.ConditionReconciling, Result{metav1.ConditionTrue, r.Reason, r.Message})
	case r.Status == metav1.ConditionFalse && r.Reason.Severity() == v1beta1.SeverityError:
		s.Put(v1beta1.ConditionStalled, Result{metav1.ConditionTrue, r.Reason, r.Message})
	}
}

// Conditions returns the conditions that were put, sorted by type.
func (s *Set) Conditions() []metav1.Condition {
	slices.SortFunc(s.after, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return s.after
}

// maxNames is the maximum number of names in a message. The API server limits the length of messages.
const maxNames = 5

// Names joins the first names for a message, and says how many it omits.
func Names(all []string) string {
	if len(all) <= maxNames {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(all[:maxNames], ", "), len(all)-maxNames)
}
