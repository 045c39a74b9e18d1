package portal

import (
	"fmt"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// revertReason explains how the managing tool would revert a change to the field at path, or the
// deletion of the client if path is empty. It returns an empty string if the change would persist.
func revertReason(c *v1beta1.ApiClient, path fieldpath.Path) string {
	m, ok := gitops.ManagerOf(c)
	switch {
	case !ok:
		return ""
	case len(path) == 0:
		return fmt.Sprintf("%s would recreate the client. Delete it in %s instead.", m, m.Tool)
	case m.Sets(c, path):
		return fmt.Sprintf("%s sets %s and would revert the change. Make the change in %s instead.", m, strings.TrimPrefix(path.String(), "."), m.Tool)
	}
	return ""
}

// isOtherManager reports whether a field manager is neither the portal nor the operator.
func isOtherManager(name string) bool { return name != FieldOwner && name != v1beta1.FieldOwner }

// Fields that the portal changes.
var (
	suspendPath     = fieldpath.MakePathOrDie("spec", "suspend")
	expiresAtPath   = fieldpath.MakePathOrDie("spec", "expirationTime")
	secretPath      = fieldpath.MakePathOrDie("spec", "secret")
	rotateAfterPath = fieldpath.MakePathOrDie("spec", "secret", "generated", "rotation", "rotationRequestTime")
)

// hashedPath returns the field path of the hashed secret with the given ID.
func hashedPath(id string) fieldpath.Path {
	return fieldpath.MakePathOrDie("spec", "secret", "hashed", fieldpath.KeyByFields("id", id))
}
