package realm

import (
	"fmt"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
)

// rotated is a pure function: the Event that tells of another key that signs; nil for none.
func rotated(before, after *v1alpha1.RealmStatus) *notice.Event {
	was, is := activeKey(before), activeKey(after)
	if was == nil || is == nil || was.KeyID == is.KeyID {
		return nil
	}
	return notice.Rotation(v1alpha1.EventSigningKeyRotated, fmt.Sprintf(
		"Key %s (%s) signs tokens from now on, in place of %s (%s).", is.KeyID, is.Algorithm, was.KeyID, was.Algorithm))
}

func activeKey(s *v1alpha1.RealmStatus) *v1alpha1.SigningKeyStatus {
	for i := range s.SigningKeys {
		if s.SigningKeys[i].State == v1alpha1.SigningKeyActive {
			return &s.SigningKeys[i]
		}
	}
	return nil
}
