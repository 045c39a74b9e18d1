package portal

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// State summarizes the conditions of a client or realm.
type State struct {
	Name string
	// Kind is good, busy, off or bad. It selects the style of the badge.
	Kind string
	// Message explains the state. It is empty if the object is ready.
	Message string
}

// State names. Lists can be filtered by state.
const (
	StateReady       = "Ready"
	StateProgressing = "Progressing"
	StateSuspended   = "Suspended"
	StateExpired     = "Expired"
	StateNotReady    = "Not ready"
)

var allStates = []string{StateReady, StateProgressing, StateSuspended, StateExpired, StateNotReady}

// stateKinds are the kinds of badges by state.
var stateKinds = map[string]string{StateReady: "good", StateProgressing: "busy", StateSuspended: "off", StateExpired: "off", StateNotReady: "bad"}

// stateOf summarizes an object's conditions.
func stateOf(conditions []metav1.Condition, generation int64) State {
	ready := meta.FindStatusCondition(conditions, string(v1beta1.ConditionReady))
	if ready == nil || ready.ObservedGeneration != generation {
		return State{StateProgressing, "busy", "The operator hasn't processed the latest change yet."}
	}
	reason := v1beta1.ConditionReason(ready.Reason)
	switch {
	case ready.Status == metav1.ConditionTrue:
		return State{Name: StateReady, Kind: "good"}
	case ready.Status == metav1.ConditionUnknown:
		return State{StateProgressing, "busy", ready.Message}
	case reason == v1beta1.ReasonExpired:
		return State{StateExpired, "off", causeOf(reason)}
	case reason.Severity() == v1beta1.SeverityIntended:
		return State{StateSuspended, "off", causeOf(reason)}
	}
	return State{StateNotReady, "bad", messageOf(ready)}
}

var conditionLabels = map[v1beta1.ConditionType]string{
	v1beta1.ConditionReady:              "Ready",
	v1beta1.ConditionAccepted:           "Configuration valid",
	v1beta1.ConditionProgrammed:         "Loaded by token servers",
	v1beta1.ConditionReconciling:        "Reconciling",
	v1beta1.ConditionStalled:            "Action required",
	v1beta1.ConditionWeaklyHashed:       "Weak secret hash",
	v1beta1.ConditionIssuersResolved:    "Keys of trusted issuers loaded",
	v1beta1.ConditionExchangesResolved:  "Exchange rules complete",
	v1beta1.ConditionKeysEncrypted:      "Signing keys encrypted",
	v1beta1.ConditionOldSecretInUse:     "Old secret still in use",
	v1beta1.ConditionRestored:           "Restored from a backup",
	v1beta1.ConditionCertificatesIssued: "Certificates issued",
	v1beta1.ConditionKMSConnected:       "KMS plugin responds",
	v1beta1.ConditionMemorySufficient:   "Memory sufficient",
}

func causeOf(reason v1beta1.ConditionReason) string {
	explanation, _ := reason.Explain()
	return explanation.Cause
}

// messageOf returns the text to show for a condition. It prefers the condition's message, which
// names the objects involved, unless the condition is true and not a warning. A newer operator may
// use reasons that this version doesn't know.
func messageOf(c *metav1.Condition) string {
	explanation, ok := v1beta1.ConditionReason(c.Reason).Explain()
	specific := c.Status != metav1.ConditionTrue || isWarning(v1beta1.ConditionType(c.Type)) ||
		c.Type == string(v1beta1.ConditionAccepted) || // names the grant that allows a client
		c.Type == string(v1beta1.ConditionRestored) // names the secrets of the backup
	if !ok || specific && c.Message != "" {
		return c.Message
	}
	return explanation.Cause
}

// isWarning reports whether a condition is a warning when it is True. The message of a warning names
// objects.
func isWarning(c v1beta1.ConditionType) bool {
	return c == v1beta1.ConditionWeaklyHashed || c == v1beta1.ConditionOldSecretInUse
}
