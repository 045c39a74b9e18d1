package scenario

import (
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// awaitKeys waits until the keys of a realm are in these states.
func AwaitSigningKeys(t *testing.T, inst *install.Installation, realm *v1alpha1.Realm, want ...v1alpha1.SigningKeyState) {
	t.Helper()
	install.Eventually(t, "other keys", func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		if got := SigningKeyStates(realm); !slices.Equal(got, want) {
			return fmt.Errorf("the keys are %v, want %v", got, want)
		}
		return nil
	})
}

func SigningKeyStates(realm *v1alpha1.Realm) []v1alpha1.SigningKeyState {
	var states []v1alpha1.SigningKeyState
	for _, k := range realm.Status.SigningKeys {
		states = append(states, k.State)
	}
	return states
}
