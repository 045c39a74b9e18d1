package scenario

import (
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// ByOperator reports whether the operator sent a write that is in the audit log.
func ByOperator(write auditv1.Event) bool { return strings.HasPrefix(write.UserAgent, "operator/") }
