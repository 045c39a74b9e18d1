package apiclient

import (
	"fmt"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
)

// rotated is a pure function: the Event that tells of another secret in force; nil for none.
func rotated(before, after *v1alpha1.ApiClientStatus) *notice.Event {
	if after.LastRotationTime == nil || after.LastRotationTime.Equal(before.LastRotationTime) || len(after.Secrets) == 0 {
		return nil
	}
	note := fmt.Sprintf("Secret %s is in force from now on.", after.Secrets[len(after.Secrets)-1].ID)
	if len(after.Secrets) > 1 {
		note += fmt.Sprintf(" Secret %s stays valid for the overlap; status.secrets shows its end.", after.Secrets[0].ID)
	}
	return notice.Rotation(v1alpha1.EventSecretRotated, note)
}
