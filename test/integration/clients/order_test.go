package clients_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Any order of applying converges: GitOps tools promise none.
func TestAnyOrderConverges(t *testing.T) {
	cluster := env.Start(t)
	realm := func() *v1alpha1.Realm { return install.Realm("acme") }
	billing := func(t *testing.T) *v1alpha1.ApiClient {
		return install.ApiClient(cluster.Namespace(t), "billing", "acme")
	}

	t.Run("realm, then client", func(t *testing.T) {
		inst := scenario.Running(t, cluster)
		c := billing(t)
		inst.Create(t, realm(), c)
		scenario.AwaitUsable(t, inst, c)
	})
	t.Run("client, told that its realm is missing, then realm", func(t *testing.T) {
		inst := scenario.Running(t, cluster)
		c := billing(t)
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound)
		inst.Create(t, realm())
		scenario.AwaitUsable(t, inst, c)
	})
	t.Run("objects, then operator, then token server", func(t *testing.T) {
		inst := install.New(t, cluster, install.Settings{})
		c := billing(t)
		inst.Create(t, c, realm())
		inst.StartOperator(t, "")
		inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonNoTokenServer)
		inst.StartTokenServer(t)
		scenario.AwaitUsable(t, inst, c)
	})
}
