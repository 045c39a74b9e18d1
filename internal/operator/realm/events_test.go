package realm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
)

func TestRotated(t *testing.T) {
	key := func(id string, algorithm v1alpha1.SigningAlgorithm, state v1alpha1.SigningKeyState) v1alpha1.SigningKeyStatus {
		return v1alpha1.SigningKeyStatus{KeyID: id, Algorithm: algorithm, State: state}
	}
	type keys = []v1alpha1.SigningKeyStatus
	active := keys{key("a", "ES256", "Active")}
	for name, test := range map[string]struct {
		before, after keys
		want          *notice.Event
	}{
		"first key":            {nil, active, nil},
		"no change":            {active, active, nil},
		"new key is published": {active, keys{active[0], key("b", "EdDSA", "Pending")}, nil},
		"old key is removed":   {keys{key("z", "ES256", "Retiring"), active[0]}, active, nil},
		"keys are unknown":     {active, nil, nil},
		"new key becomes active": {
			keys{active[0], key("b", "EdDSA", "Pending")},
			keys{key("a", "ES256", "Retiring"), key("b", "EdDSA", "Active")},
			&notice.Event{Type: "Normal", Reason: "SigningKeyRotated", Action: "Rotate", Note: "Signing key rotated to b (EdDSA) from a (ES256)."},
		},
		"record and all keys were deleted": {
			active,
			keys{key("c", "ES256", "Active")},
			&notice.Event{Type: "Normal", Reason: "SigningKeyRotated", Action: "Rotate", Note: "Signing key rotated to c (ES256) from a (ES256)."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := rotated(&v1alpha1.RealmStatus{SigningKeys: test.before}, &v1alpha1.RealmStatus{SigningKeys: test.after})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
