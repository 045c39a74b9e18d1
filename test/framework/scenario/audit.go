package scenario

import (
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
)

// ByOperator reports whether the operator sent a write that is in the audit log, and that isn't one of the
// beacon, which it repeats.
func ByOperator(write auditv1.Event) bool {
	return strings.HasPrefix(write.UserAgent, "operator/") && (write.ObjectRef.Resource != "secrets" || write.ObjectRef.Name != beacon.Name)
}
