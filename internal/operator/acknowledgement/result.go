package acknowledgement

import (
	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// Result returns the result for an object's Programmed condition.
func (s State) Result() condition.Result {
	switch s {
	case Acknowledged:
		return condition.Ready("Every live token server has loaded this state.")
	case Waiting:
		return condition.Progressing("Waiting for every live token server to load this state.")
	default:
		return condition.NotReady(v1beta1.ReasonNoTokenServer,
			"No live token servers. Check the Instance realmkeeper, and the token server Deployment and its Pods in the system namespace.")
	}
}
