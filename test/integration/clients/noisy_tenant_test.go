package clients_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
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
	for _, c := range []*v1beta1.ApiClient{victim, own} {
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
		inst.AwaitTokens(t, inst.CredentialsSecret(t, c), true)
	}

	noisy.create(t)
	for _, c := range []*v1beta1.ApiClient{victim, own} {
		install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
		inst.AwaitTokens(t, inst.CredentialsSecret(t, c), false)
		// Had the suspension waited for its turn, only as many hashes as there are workers would be left.
		if n := noisy.withoutSecret(t); n <= workers {
			t.Errorf("when the suspension of %s took effect, only %d of %d secrets were not hashed yet", c.Name, n, noisy.size)
		}
	}
}

// tenant creates clients with provided secrets that a person could have chosen, which are therefore hashed
// with Argon2id.
type tenant struct {
	inst      *install.Installation
	namespace string
	size      int
}

func name(n int) string { return fmt.Sprintf("noisy-%d", n) }

func (o *tenant) secret(n int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.namespace, Name: name(n), Labels: map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided},
		},
		StringData: map[string]string{"client_secret": fmt.Sprintf("a chosen password of %d", n)},
	}
}

func (o *tenant) apiClient(n int) *v1beta1.ApiClient {
	return install.ApiClient(o.namespace, name(n), "acme", func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Provided: &v1beta1.ProvidedSecret{SecretRef: v1beta1.SecretKeyReference{Name: name(n)}}}
	})
}

// create creates all objects.
func (o *tenant) create(t *testing.T) {
	t.Helper()
	var creating sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		creating.Go(func() {
			for n := int(next.Add(1)) - 1; n < o.size; n = int(next.Add(1)) - 1 {
				for _, obj := range []client.Object{o.secret(n), o.apiClient(n)} {
					if err := o.inst.Env.Client.Create(t.Context(), obj); err != nil {
						t.Errorf("Failed to create %T %s: %v", obj, obj.GetName(), err)
					}
				}
			}
		})
	}
	creating.Wait()
}

// withoutSecret returns the number of clients whose secrets are not hashed yet.
func (o *tenant) withoutSecret(t *testing.T) int {
	t.Helper()
	clients := &v1beta1.ApiClientList{}
	if err := o.inst.Env.Client.List(t.Context(), clients, client.InNamespace(o.namespace)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range clients.Items {
		if c := &clients.Items[i]; c.Spec.Secret.Provided != nil && len(c.Status.Secrets()) == 0 {
			n++
		}
	}
	return n
}
