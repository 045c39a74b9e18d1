package scenario

import (
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// AwaitSigningKeys waits until the signing keys of a realm are in the given states.
func AwaitSigningKeys(t *testing.T, inst *install.Installation, realm *v1beta1.Realm, want ...v1beta1.SigningKeyState) {
	t.Helper()
	install.Eventually(t, "signing keys in the states "+fmt.Sprint(want), func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
			return err
		}
		var got []v1beta1.SigningKeyState
		for _, k := range realm.Status.SigningKeys {
			got = append(got, k.State)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the keys are %v, want %v", got, want)
		}
		return nil
	})
}
