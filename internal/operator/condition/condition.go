// Package condition builds the conditions of our objects in the way that kstatus and
// kubectl wait read them.
package condition

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// Result is what an object's state comes to: one status for the Ready condition, with
// the reason and the message that people act on.
type Result struct {
	Status  metav1.ConditionStatus
	Reason  v1alpha1.ConditionReason
	Message string
}

// Ready is the result that all is well.
func Ready(message string) Result {
	return Result{metav1.ConditionTrue, v1alpha1.ReasonReady, message}
}

// Progressing is the result that work goes on and will end by itself.
func Progressing(message string) Result {
	return Result{metav1.ConditionUnknown, v1alpha1.ReasonProgressing, message}
}

// NotReady is the result that nothing more comes until someone acts, or has decided.
func NotReady(reason v1alpha1.ConditionReason, message string) Result {
	return Result{metav1.ConditionFalse, reason, message}
}

// Set holds the conditions of one object while they are decided. Conditions that are
// not set again are gone, and one that says the same as before keeps its transition time.
type Set struct {
	before     []metav1.Condition
	generation int64
	now        metav1.Time
	after      []metav1.Condition
}

// NewSet begins with the conditions that the object has now.
func NewSet(before []metav1.Condition, generation int64, now metav1.Time) *Set {
	return &Set{before: before, generation: generation, now: now}
}

// Put sets one condition.
func (s *Set) Put(kind v1alpha1.ConditionType, r Result) {
	c := metav1.Condition{
		Type:               string(kind),
		Status:             r.Status,
		ObservedGeneration: s.generation,
		LastTransitionTime: s.now,
		Reason:             string(r.Reason),
		Message:            r.Message,
	}
	if old := meta.FindStatusCondition(s.before, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	s.after = append(s.after, c)
}

// Summarize sets Ready to the result, and beside it Reconciling while it is Unknown.
// Stalled is set when the result is False and stuck says that it is a fault, not a decision:
// nothing changes until someone acts.
func (s *Set) Summarize(r Result, stuck bool) {
	s.Put(v1alpha1.ConditionReady, r)
	switch {
	case r.Status == metav1.ConditionUnknown:
		s.Put(v1alpha1.ConditionReconciling, Result{metav1.ConditionTrue, r.Reason, r.Message})
	case r.Status == metav1.ConditionFalse && stuck:
		s.Put(v1alpha1.ConditionStalled, Result{metav1.ConditionTrue, r.Reason, r.Message})
	}
}

// Conditions returns what was set, sorted by type.
func (s *Set) Conditions() []metav1.Condition {
	slices.SortFunc(s.after, func(a, b metav1.Condition) int {
		if a.Type < b.Type {
			return -1
		}
		return 1
	})
	return s.after
}
