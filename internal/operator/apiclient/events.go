package apiclient

import (
	"fmt"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
)

// rotated returns the Event for a rotation of the client secret between two versions of the
// status, or nil if there was none. It is a pure function.
func rotated(before, after *v1alpha1.ApiClientStatus) *notice.Event {
	if after.LastRotationTime == nil || after.LastRotationTime.Equal(before.LastRotationTime) || len(after.Secrets) == 0 {
		return nil
	}
	note := fmt.Sprintf("Client secret rotated. The active secret is now %s.", after.Secrets[len(after.Secrets)-1].ID)
	if len(after.Secrets) > 1 {
		note += fmt.Sprintf(" Secret %s stays valid until the overlap ends; see its expiration in status.secrets.", after.Secrets[0].ID)
	}
	return notice.Rotation(v1alpha1.EventSecretRotated, note)
}
