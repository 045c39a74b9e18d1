package availability_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An operator logs at its start whether the version of Kubernetes is supported, and works with any
// version. The plugin shows an unsupported version as the first problem.
func TestUnsupportedKubernetesIsReported(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)
	await := func(words ...string) {
		t.Helper()
		install.Eventually(t, "the operator to log "+words[0], func() error {
			for line := range strings.Lines(string(inst.OperatorLog(t))) {
				if containsAll(line, words) {
					return nil
				}
			}
			return errors.New("not logged")
		})
	}
	await("Kubernetes version is supported", `"level":"info"`)
	user := plugin.NewUser(cluster)
	if status := user.Succeeds(t, "status"); strings.Contains(status, "is not supported") || !strings.Contains(status, "  Kubernetes ") {
		t.Errorf("the status of a supported version is %s", status)
	}

	proxy := inst.StartFaultProxy(t, install.Faults{})
	kubeconfig := inst.KubeconfigFor(t, proxy.URL)
	proxy.SetVersion("v1.32.9-gke.100")
	inst.StopOperator(t)
	inst.StartOperator(t, kubeconfig)
	await("Kubernetes version is not supported", `"level":"error"`, "v1.32.9-gke.100 is older than", "upgrade the cluster")
	second := install.ApiClient(c.Namespace, "second", c.Spec.RealmRef.Name)
	inst.Create(t, second)
	scenario.AwaitUsable(t, inst, second)

	user.Kubeconfig = kubeconfig
	if status := user.Succeeds(t, "status"); !strings.HasPrefix(status, "PROBLEMS\n  Kubernetes v1.32.9-gke.100 is not supported\n") {
		t.Errorf("the first problem is not the version: %s", status)
	}
}

func containsAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}
