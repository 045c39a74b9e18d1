package acknowledgement

import (
	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// Verdict returns what the state means for the Programmed condition of an object.
func (s State) Result() condition.Result {
	switch s {
	case Acknowledged:
		return condition.Ready("Every live token server has loaded this state.")
	case Waiting:
		return condition.Progressing("Waiting for every live token server to load this state.")
	default:
		return condition.NotReady(v1alpha1.ReasonNoTokenServer,
			"No token server is live. Look at the token servers' Deployment and pods in the system namespace.")
	}
}
