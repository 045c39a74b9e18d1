package tenancy_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var competitors = flag.Int("competitors", 20, "Number of ApiClients that compete for the victim's client ID")

// An attacker creates many clients with the client ID of another tenant. Meanwhile, the other
// tenant's changes still take effect, and it keeps the ID.
func testManyCompetitors(t *testing.T, b *bank) {
	attacker, owner := newTenant(t, b.inst), newTenant(t, b.inst)
	b.grant(t, attacker, "crowded")
	b.grant(t, owner, "crowded")
	crowded := newHolder(t, b.inst, owner.apiClient("crowded", bankName, "crowded", func(c *v1beta1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(time.Hour) }))
	var last *v1beta1.ApiClient
	for n := range *competitors {
		last = attacker.apiClient(fmt.Sprintf("competitor-%d", n), bankName, "crowded")(t)
		if n == *competitors/2 {
			install.Change(t, b.inst, crowded.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
			awaitNoToken(t, b.inst, crowded.credentials)
			install.Change(t, b.inst, crowded.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
			b.inst.AwaitReady(t, crowded.client, metav1.ConditionTrue, v1beta1.ReasonReady)
			b.inst.AwaitTokens(t, crowded.credentials, true)
		}
	}
	crowded.expectUnharmed(t)
	expectRejected(t, b.inst, last, v1beta1.ReasonClientIDConflict)

	scenario.RotateSecret(t, b.inst, crowded.client)
	install.Eventually(t, "a new secret", func() error {
		if now := b.inst.CredentialsSecret(t, crowded.client); scenario.ClientSecret(now) == scenario.ClientSecret(crowded.credentials) {
			return fmt.Errorf("the secret has not changed")
		}
		return nil
	})
	rotated := holderOf(t, b.inst, crowded.client)
	if !cmp.Equal(rotated.claims, crowded.claims) || rotated.record.UID != crowded.record.UID {
		t.Errorf("the identity has changed from %+v to %+v", crowded.claims, rotated.claims)
	}
}
