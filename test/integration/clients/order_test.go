package clients_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// GitOps tools apply objects in any order, so every order must converge.
func testAnyOrderConverges(t *testing.T, inst *install.Installation) {
	t.Run("realm, then client", func(t *testing.T) {
		c := install.ApiClient(inst.Env.Namespace(t), "billing", "realm-first")
		inst.Create(t, install.Realm("realm-first"), c)
		scenario.AwaitUsable(t, inst, c)
	})
	t.Run("client, then realm", func(t *testing.T) {
		c := install.ApiClient(inst.Env.Namespace(t), "billing", "client-first")
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound)
		inst.Create(t, install.Realm("client-first"))
		scenario.AwaitUsable(t, inst, c)
	})
}
