package permissions_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// TestUnknownContainer adds a container to the Deployment of the token servers, which the operator keeps, and
// follows the remedy.
func TestUnknownContainer(t *testing.T) {
	inst, _ := operator(t, install.Settings{})
	inst.StartTokenServer(t)
	instance := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName}}
	inst.AwaitReady(t, instance, metav1.ConditionTrue, v1beta1.ReasonReady)
	servers := &appsv1.Deployment{ObjectMeta: key(inst.Namespace, config.TokenServiceName)}
	// Others can own these fields.
	inst.Env.Kubectl(t, "rollout", "restart", "deployment", servers.Name, "--namespace", servers.Namespace)
	inst.Env.Kubectl(t, "scale", "deployment", servers.Name, "--namespace", servers.Namespace, "--replicas=0")
	change(t, inst.Env.Client, servers, `{"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "x"}]}}}}`)
	inst.AwaitReady(t, instance, metav1.ConditionFalse, v1beta1.ReasonUnknownContainer)
	scenario.ExpectMessage(t, instance, v1beta1.ConditionReady, servers.Name+": x.")
	inst.Delete(t, servers)
	inst.AwaitReady(t, instance, metav1.ConditionTrue, v1beta1.ReasonReady)
}

// change changes an object as another field manager than the operator, so that the operator keeps the change.
func change(t *testing.T, as client.Client, obj client.Object, patch string) {
	t.Helper()
	if err := as.Patch(t.Context(), obj, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.FieldOwner("another-manager")); err != nil {
		t.Fatalf("Failed to change %T %s: %v", obj, obj.GetName(), err)
	}
}
