package availability_test

import (
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An operator works with any version of Kubernetes. The plugin shows an unsupported version as the first problem.
func TestUnsupportedKubernetesIsReported(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)
	user := plugin.NewUser(cluster)
	if status := user.Succeeds(t, "status"); strings.Contains(status, "is not supported") || !strings.Contains(status, "  Kubernetes ") {
		t.Errorf("the status of a supported version is %s", status)
	}

	proxy := inst.StartFaultProxy(t, install.Faults{})
	kubeconfig := inst.KubeconfigFor(t, proxy.URL)
	proxy.SetVersion("v1.32.9-gke.100")
	inst.StopOperator(t)
	inst.StartOperator(t, kubeconfig)
	second := install.ApiClient(c.Namespace, "second", c.Spec.RealmRef.Name)
	inst.Create(t, second)
	scenario.AwaitUsable(t, inst, second)

	user.Kubeconfig = kubeconfig
	if status := user.Succeeds(t, "status"); !strings.HasPrefix(status, "PROBLEMS\n  Kubernetes v1.32.9-gke.100 is not supported\n") {
		t.Errorf("the first problem is not the version: %s", status)
	}
}
