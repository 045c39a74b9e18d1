package operator_test

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/testenv"
	"github.com/realmkeeper/realmkeeper/internal/testinstall"
)

// GitOps tools read our status through kstatus: what works is Current, what will work
// by itself is InProgress, and what someone has to mend is Failed.
func TestKstatusReadsOurStatus(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	team := env.Namespace(t)
	realm := testinstall.Realm("acme")
	good := testinstall.ApiClient(team, "good", "acme")
	early := testinstall.ApiClient(team, "early", "later")
	wrong := testinstall.ApiClient(team, "wrong", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{"none"} })
	paused := testinstall.ApiClient(team, "paused", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	install.Create(t, realm, good, early, wrong, paused)
	install.AwaitReady(t, good, metav1.ConditionTrue, v1alpha1.ReasonReady)
	install.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	install.AwaitReady(t, early, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound)
	install.AwaitReady(t, wrong, metav1.ConditionFalse, v1alpha1.ReasonScopeNotInRealm)
	install.AwaitReady(t, paused, metav1.ConditionFalse, v1alpha1.ReasonSuspended)

	for _, test := range []struct {
		obj  client.Object
		kind string
		want status.Status
	}{
		{realm, "Realm", status.CurrentStatus},
		{good, "ApiClient", status.CurrentStatus},
		{early, "ApiClient", status.InProgressStatus},
		{paused, "ApiClient", status.InProgressStatus},
		{wrong, "ApiClient", status.FailedStatus},
	} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(test.obj)
		if err != nil {
			t.Fatal(err)
		}
		obj := &unstructured.Unstructured{Object: content}
		obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(test.kind))
		got, err := status.Compute(obj)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != test.want {
			t.Errorf("%s is %s (%s), want %s", test.obj.GetName(), got.Status, got.Message, test.want)
		}
	}
}
