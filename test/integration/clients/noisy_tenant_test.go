package clients_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// workers is the number of ApiClients that the operator reconciles at the same time.
const workers = 16

// A tenant with many slow hashes delays neither another tenant's suspension nor its own.
func TestNoisyTenantDelaysNoSuspension(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	noisy := &tenant{inst: inst, namespace: cluster.Namespace(t), size: 100}
	victim := install.ApiClient(cluster.Namespace(t), "victim", "acme")
	own := install.ApiClient(noisy.namespace, "own", "acme")
	for _, c := range []*v1alpha1.ApiClient{victim, own} {
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		inst.AwaitTokens(t, inst.CredentialsSecret(t, c), true)
	}

	noisy.create(t)
	for _, c := range []*v1alpha1.ApiClient{victim, own} {
		install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
		inst.AwaitTokens(t, inst.CredentialsSecret(t, c), false)
		// Had the suspension waited for its turn, only as many hashes as there are workers would be left.
		if n := noisy.withoutSecret(t); n <= workers {
			t.Errorf("when the suspension of %s took effect, only %d of %d secrets were not hashed yet", c.Name, n, noisy.size)
		}
	}
}

// withoutSecret returns the number of clients whose secrets are not hashed yet.
func (o *tenant) withoutSecret(t testing.TB) int {
	t.Helper()
	return o.count(t, func(c *v1alpha1.ApiClient) bool { return len(c.Status.Secrets) == 0 })
}

// count returns the number of clients with a provided secret to which the condition applies.
func (o *tenant) count(t testing.TB, applies func(*v1alpha1.ApiClient) bool) int {
	t.Helper()
	clients := &v1alpha1.ApiClientList{}
	if err := o.inst.Env.Client.List(t.Context(), clients, client.InNamespace(o.namespace)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range clients.Items {
		if c := &clients.Items[i]; c.Spec.Secret.Provided != nil && applies(c) {
			n++
		}
	}
	return n
}
