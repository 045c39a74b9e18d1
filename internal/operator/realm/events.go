package realm

import (
	"fmt"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
)

// rotated returns the Event for a change to a new active key, or nil if the active key did not
// change. It is a pure function.
func rotated(before, after *v1beta1.RealmStatus) *events.Event {
	old, current := activeKey(before), activeKey(after)
	if old == nil || current == nil || old.KeyID == current.KeyID {
		return nil
	}
	return events.Rotation(v1beta1.EventSigningKeyRotated, fmt.Sprintf(
		"Signing key rotated to %s (%s) from %s (%s).", current.KeyID, current.Algorithm, old.KeyID, old.Algorithm))
}

func activeKey(s *v1beta1.RealmStatus) *v1beta1.SigningKeyStatus {
	for i := range s.SigningKeys {
		if s.SigningKeys[i].State == v1beta1.SigningKeyActive {
			return &s.SigningKeys[i]
		}
	}
	return nil
}
