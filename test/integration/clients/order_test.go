package clients_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// GitOps tools apply objects in any order, so a client before its realm must converge, too.
func testClientBeforeRealm(t *testing.T, inst *install.Installation) {
	c := install.ApiClient(inst.Env.Namespace(t), "billing", "client-first")
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonRealmNotFound)
	inst.Create(t, install.Realm("client-first"))
	scenario.AwaitUsable(t, inst, c)
}
