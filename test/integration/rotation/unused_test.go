package rotation_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/load"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Two clients rotate their secrets. The workload of the first one loads the new secret immediately.
// The workload of the second one keeps using the old secret. Only the old secret of the first client
// ends.
func TestOldSecretEndsWhenUnused(t *testing.T) {
	cluster := env.Start(t)
	// One hour is scaled down to one second, but not the token lifetime. An old secret therefore ends
	// after 12 s without use, which is the token lifetime plus twice the resolution.
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600, DefaultTokenLifetime: "10s"})
	inst.StartOperator(t, "")
	server := inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	team := cluster.Namespace(t)
	var clients []*v1beta1.ApiClient
	for _, name := range []string{"moves", "lags"} {
		c := install.ApiClient(team, name, "acme", func(c *v1beta1.ApiClient) {
			c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{Rotation: v1beta1.SecretRotation{
				ExpireWhenUnused: &v1beta1.ExpireWhenUnused{After: &v1beta1.Duration{Duration: time.Hour}, Max: &v1beta1.Duration{Duration: 720 * time.Hour}},
			}}}
		})
		inst.Create(t, c)
		scenario.AwaitUsable(t, inst, c)
		clients = append(clients, c)
	}
	moves, lags := clients[0], clients[1]
	oldOfMoves, oldOfLags := inst.CredentialsSecret(t, moves), inst.CredentialsSecret(t, lags)
	uses := load.Start(t, load.Options{
		Servers: inst.Servers(), Workers: 2, PerSecond: 2, Credentials: func() *corev1.Secret { return oldOfLags },
	})

	for _, c := range clients {
		scenario.RotateSecret(t, inst, c)
	}
	scenario.AwaitSecretRotated(t, inst, moves)
	inst.AwaitTokens(t, oldOfMoves, false)
	inst.AwaitTokens(t, inst.CredentialsSecret(t, moves), true)
	install.Eventually(t, "the status to show that the old secret is in use", func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(lags), lags); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(lags.Status.Conditions, string(v1beta1.ConditionOldSecretInUse)) || len(lags.Status.Secrets()) != 2 {
			return fmt.Errorf("the conditions are %v and the secrets are %v", lags.Status.Conditions, lags.Status.Secrets())
		}
		return nil
	})
	inst.AwaitEvent(t, lags, corev1.EventTypeWarning, v1beta1.EventOldSecretInUse)
	if r := uses.Stop(); r.Failed > 0 || r.Tokens == 0 {
		t.Errorf("the old secret that is in use got %d tokens, and %d requests failed: %q", r.Tokens, r.Failed, r.Failures)
	}
	if a, err := install.RequestToken(t, server, server.Client(t), oldOfLags); err != nil || a.Status != http.StatusOK {
		t.Errorf("the old secret in use was rejected: %+v, %v", a, err)
	}
}
