package portal

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/remedy"
)

// conditionView contains the condition details that pages show.
type conditionView struct {
	// Name is the type of the condition, as in kubectl. Label explains it.
	Name, Label             string
	Status, Reason, Message string
	// Kind is good, busy, off or bad. It selects the style of the badge.
	Kind  string
	Since metav1.Time
	// Remedy is nil if there is nothing to do, or if an earlier condition has the same reason.
	Remedy *remedyView
}

// remedyView contains what to do about a condition.
type remedyView struct {
	Action string
	// Commands are shell commands. Each has an ID for the button that copies it.
	Commands []commandView
}

type commandView struct{ ID, Text string }

// remedies returns the remedy of a reason. It returns false for unknown reasons.
type remedies func(v1beta1.ConditionReason) (remedy.Remedy, bool)

func clientRemedies(c *v1beta1.ApiClient, readRealm func() *v1beta1.Realm) remedies {
	return func(r v1beta1.ConditionReason) (remedy.Remedy, bool) { return remedy.ForClient(c, readRealm, r) }
}

func realmRemedies(realm *v1beta1.Realm) remedies {
	return func(r v1beta1.ConditionReason) (remedy.Remedy, bool) { return remedy.ForRealm(realm, r) }
}

// shownConditions are the conditions to show: Ready first, then the others in evaluation order.
var shownConditions = []v1beta1.ConditionType{
	v1beta1.ConditionReady, v1beta1.ConditionAccepted, v1beta1.ConditionProgrammed,
	v1beta1.ConditionReconciling, v1beta1.ConditionStalled, v1beta1.ConditionWeaklyHashed,
	v1beta1.ConditionOldSecretInUse, v1beta1.ConditionIssuersResolved, v1beta1.ConditionExchangesResolved, v1beta1.ConditionKeysEncrypted,
	v1beta1.ConditionRestored, v1beta1.ConditionCertificatesIssued, v1beta1.ConditionKMSConnected, v1beta1.ConditionMemorySufficient,
}

// conditionsOf returns the conditions to show.
func conditionsOf(conditions []metav1.Condition, find remedies) []conditionView {
	var views []conditionView
	explained, seen := map[string]bool{}, map[string]bool{}
	for _, c := range shownConditions {
		found := meta.FindStatusCondition(conditions, string(c))
		if found == nil {
			continue
		}
		view := conditionView{
			Name: found.Type, Label: conditionLabels[c], Status: string(found.Status), Reason: found.Reason,
			Kind: conditionKind(found), Message: messageOf(found), Since: found.LastTransitionTime,
		}
		if view.Kind != "good" && !explained[found.Reason] {
			explained[found.Reason] = true
			view.Remedy = remedyOf(found, find)
		}
		if seen[view.Message] {
			view.Message = "" // it's shown with an earlier condition
		}
		seen[view.Message] = true
		views = append(views, view)
	}
	return views
}

// optionalConditions don't affect Ready, and are good if they are True.
var optionalConditions = []v1beta1.ConditionType{
	v1beta1.ConditionIssuersResolved, v1beta1.ConditionExchangesResolved, v1beta1.ConditionKeysEncrypted, v1beta1.ConditionRestored,
	v1beta1.ConditionCertificatesIssued, v1beta1.ConditionKMSConnected, v1beta1.ConditionMemorySufficient,
}

// conditionKind returns the kind of a condition's badge.
func conditionKind(c *metav1.Condition) string {
	kind := v1beta1.ConditionType(c.Type)
	optional := slices.Contains(optionalConditions, kind)
	warning := isWarning(kind) || optional || kind == v1beta1.ConditionReconciling // doesn't affect Ready
	switch {
	case c.Status == metav1.ConditionUnknown:
		return "busy"
	case kind == v1beta1.ConditionStalled:
		return "bad" // present only while it's True
	case c.Status == metav1.ConditionTrue && (!warning || optional):
		return "good"
	case warning:
		return "busy"
	}
	if v1beta1.ConditionReason(c.Reason).Severity() == v1beta1.SeverityIntended {
		return "off"
	}
	return "bad"
}

func remedyOf(c *metav1.Condition, find remedies) *remedyView {
	found, ok := find(v1beta1.ConditionReason(c.Reason))
	if !ok || found.Action == "" {
		return nil
	}
	view := &remedyView{Action: found.Action}
	for k, command := range found.Commands {
		view.Commands = append(view.Commands, commandView{ID: c.Type + "-command-" + strconv.Itoa(k), Text: command})
	}
	return view
}
