package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/terminal"
)

// Finding is a condition that a user should know about, with its remedy.
type Finding struct {
	Condition string   `json:"condition"`
	Status    string   `json:"status"`
	Reason    string   `json:"reason"`
	Message   string   `json:"message,omitempty"`
	Cause     string   `json:"cause,omitempty"`
	Action    string   `json:"action,omitempty"`
	Commands  []string `json:"commands,omitempty"`
}

const notProcessed = "The operator has not processed the latest change yet."

// Findings returns the Ready condition first, and then the conditions that add information: other
// reasons why the object is not Ready, and warnings.
func (t *Target) Findings() []Finding {
	ready := t.Condition(v1beta1.ConditionReady)
	if ready == nil {
		ready = &metav1.Condition{
			Type: string(v1beta1.ConditionReady), Status: metav1.ConditionUnknown, Reason: string(v1beta1.ReasonProgressing), Message: notProcessed,
		}
	}
	found := []Finding{t.finding(ready)}
	for _, kind := range []v1beta1.ConditionType{v1beta1.ConditionAccepted, v1beta1.ConditionProgrammed} {
		if c := t.Condition(kind); c != nil && c.Status == metav1.ConditionFalse && c.Reason != ready.Reason && c.Reason != found[len(found)-1].Reason {
			found = append(found, t.finding(c))
		}
	}
	return append(found, t.Warnings()...)
}

// Warnings returns the conditions that do not affect Ready but need attention.
func (t *Target) Warnings() []Finding {
	var found []Finding
	for _, kind := range []v1beta1.ConditionType{v1beta1.ConditionIssuersResolved, v1beta1.ConditionExchangesResolved} {
		if c := t.Condition(kind); c != nil && c.Status != metav1.ConditionTrue {
			found = append(found, t.finding(c))
		}
	}
	for _, kind := range []v1beta1.ConditionType{v1beta1.ConditionWeaklyHashed, v1beta1.ConditionOldSecretInUse} {
		if c := t.Condition(kind); c != nil && c.Status != metav1.ConditionFalse {
			found = append(found, t.finding(c))
		}
	}
	return found
}

func (t *Target) finding(c *metav1.Condition) Finding {
	f := Finding{Condition: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
	if r, ok := t.remedy(c.Reason); ok {
		f.Cause, f.Action, f.Commands = r.Cause, r.Action, r.Commands
	} else {
		// A newer operator can have reasons that this version of the plugin does not know.
		f.Commands = []string{"kubectl realmkeeper version"}
	}
	return f
}

// Color returns the color that shows the state of the condition.
func (f Finding) Color() terminal.Color {
	switch {
	case f.Condition == string(v1beta1.ConditionReady) && f.Status == string(metav1.ConditionTrue):
		return terminal.Green
	case f.Status == string(metav1.ConditionFalse) && v1beta1.ConditionReason(f.Reason).Severity() != v1beta1.SeverityIntended:
		return terminal.Red
	}
	return terminal.Yellow
}

// Text writes the cause, the details, and what to do.
func (f Finding) Text(w *terminal.Writer) {
	fields := [][2]string{{"Cause", f.Cause}, {"Details", f.Message}, {"Action", f.Action}}
	if f.Cause == "" {
		fields[2][1] = "The reason is unknown to this version of the plugin. Use the version of the operator."
	}
	w.Fields(fields)
	w.Line(terminal.Plain, "  Next")
	w.Commands(4, f.Commands)
}
