package fairness_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A tenant with many slow hashes delays neither another tenant's suspension nor its own.
func TestNoisyTenantDelaysNoSuspension(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	noisy := &tenant{inst: inst, namespace: cluster.Namespace(t), size: 200}
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
		if noisy.waiting(t) == 0 {
			t.Errorf("the suspension of %s took effect only after every secret was hashed", c.Name)
		}
	}
	install.Eventually(t, "all secrets to be hashed", func() error {
		if n := noisy.waiting(t); n > 0 {
			return fmt.Errorf("%d clients are not Ready", n)
		}
		return nil
	})
}

// waiting returns the number of clients that are not Ready.
func (o *tenant) waiting(t testing.TB) int {
	t.Helper()
	clients := &v1alpha1.ApiClientList{}
	if err := o.inst.Env.Client.List(t.Context(), clients, client.InNamespace(o.namespace)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range clients.Items {
		c := &clients.Items[i]
		if c.Spec.Secret.Provided != nil && !meta.IsStatusConditionTrue(c.Status.Conditions, string(v1alpha1.ConditionReady)) {
			n++
		}
	}
	return n
}
