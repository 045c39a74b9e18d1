package apiclient

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
)

// rotated returns the Event for a rotation of the client secret between two versions of the
// status, or nil if there was none. It is a pure function.
func rotated(before, after *v1beta1.ApiClientStatus) *events.Event {
	secrets := after.Secrets()
	if after.LastRotationTime == nil || after.LastRotationTime.Equal(before.LastRotationTime) || len(secrets) == 0 {
		return nil
	}
	note := fmt.Sprintf("Client secret rotated. The active secret is now %s.", secrets[len(secrets)-1].Name)
	if len(secrets) > 1 {
		note += fmt.Sprintf(" Secret %s stays valid until it expires; see status.credentials.", secrets[0].Name)
	}
	return events.Rotation(v1beta1.EventSecretRotated, note)
}

// oldSecretUsed returns the Event for an old secret that is still in use. There is one Event when
// the condition OldSecretInUse becomes True, and one for each further day (UTC) on which the secret
// is used. Otherwise, oldSecretUsed returns nil. It is a pure function.
func oldSecretUsed(before, after *v1beta1.ApiClientStatus) *events.Event {
	day := oldSecretDay(after)
	if day == "" || day == oldSecretDay(before) {
		return nil
	}
	return events.OldSecretInUse(meta.FindStatusCondition(after.Conditions, string(v1beta1.ConditionOldSecretInUse)).Message)
}

// oldSecretDay returns the ID of the old secret that is in use, followed by the day of its last
// use. It is empty if no old secret is in use.
func oldSecretDay(s *v1beta1.ApiClientStatus) string {
	secrets := s.Secrets()
	if !meta.IsStatusConditionTrue(s.Conditions, string(v1beta1.ConditionOldSecretInUse)) || len(secrets) == 0 || secrets[0].LastUsedTime == nil {
		return ""
	}
	return secrets[0].Name + secrets[0].LastUsedTime.UTC().Format(time.DateOnly)
}
