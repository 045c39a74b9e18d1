//go:build scale

package scale_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// apiAlone measures the API server without the operator. It makes the operator's writes for new
// ApiClients itself, by copying an ApiClient that is Ready, its record, its credentials Secret, and
// its status.
type apiAlone struct {
	inst                *install.Installation
	operator            client.Client // with the operator's identity, which the API server authorizes
	namespace           string
	client              *v1beta1.ApiClient
	record, credentials *corev1.Secret
}

// newAPIAlone returns an apiAlone that copies the given ApiClient.
func newAPIAlone(t testing.TB, inst *install.Installation, ready *v1beta1.ApiClient) *apiAlone {
	t.Helper()
	cfg := rest.CopyConfig(inst.Env.Config)
	cfg.Impersonate.UserName = "system:serviceaccount:" + inst.Namespace + ":realmkeeper-operator"
	operator, err := client.New(cfg, client.Options{Scheme: inst.Env.Client.Scheme(), Mapper: inst.Env.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	a := &apiAlone{inst: inst, operator: operator, namespace: inst.Env.Namespace(t), client: ready, record: &corev1.Secret{}, credentials: inst.CredentialsSecret(t, ready)}
	key := client.ObjectKey{Namespace: inst.RecordsNamespace, Name: scenario.RecordName(t, inst, ready)}
	if err := inst.Env.Client.Get(t.Context(), key, a.record); err != nil {
		t.Fatal(err)
	}
	return a
}

// time returns how long the writes take for the given number of ApiClients.
func (a *apiAlone) time(t testing.TB, clients int) time.Duration {
	t.Helper()
	defer a.delete(t)
	awaitQuiet(t)
	var failure atomic.Pointer[error]
	began := time.Now()
	parallel(clients, func(n int) {
		if err := a.write(t, n); err != nil {
			failure.Store(&err)
		}
	})
	took := time.Since(began)
	if err := failure.Load(); err != nil {
		t.Fatalf("Failed to write the objects of an ApiClient: %v", *err)
	}
	return took
}

func (a *apiAlone) write(t testing.TB, n int) error {
	c := install.ApiClient(a.namespace, fmt.Sprintf("client-%d", n), a.client.Spec.RealmRef.Name)
	if err := a.inst.Env.Client.Create(t.Context(), c); err != nil {
		return err
	}
	for i, secret := range []*corev1.Secret{a.record, a.credentials} {
		labels := maps.Clone(secret.Labels)
		labels[v1beta1.ClientSecretLabel] = v1beta1.ClientSecretGenerated // The operator can only write labeled Secrets here.
		content := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: a.namespace, Name: fmt.Sprintf("%d-%s-%d", i, secret.Name, n),
				Labels: labels, Annotations: secret.Annotations, OwnerReferences: secret.OwnerReferences,
			},
			Type: secret.Type, Data: secret.Data,
		}
		for j := range content.OwnerReferences {
			content.OwnerReferences = []metav1.OwnerReference{*content.OwnerReferences[j].DeepCopy()}
			content.OwnerReferences[j].Name, content.OwnerReferences[j].UID = c.Name, c.UID
		}
		if err := a.operator.Create(t.Context(), content, client.FieldOwner(v1beta1.FieldOwner)); err != nil {
			return err
		}
	}
	status, err := json.Marshal(a.client.Status)
	if err != nil {
		return err
	}
	desired := &unstructured.Unstructured{Object: map[string]any{}}
	desired.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("ApiClient"))
	desired.SetNamespace(c.Namespace)
	desired.SetName(c.Name)
	desired.SetResourceVersion(c.ResourceVersion)
	var fields map[string]any
	if err := json.Unmarshal(status, &fields); err != nil {
		return err
	}
	desired.Object["status"] = fields
	return a.operator.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(desired), client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership)
}

// delete deletes all objects, so that the operator doesn't find them when it starts.
func (a *apiAlone) delete(t testing.TB) {
	t.Helper()
	deleteAll(t, a.inst, a.namespace, &v1beta1.ApiClient{})
	deleteAll(t, a.inst, a.namespace, &corev1.Secret{})
}

// writers is the number of concurrent requests. On two cores, more requests don't increase the
// throughput of the API server.
const writers = 16

// parallel calls do with each number below n.
func parallel(n int, do func(int)) {
	numbers := make(chan int)
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for number := range numbers {
				do(number)
			}
		})
	}
	for number := range n {
		numbers <- number
	}
	close(numbers)
	running.Wait()
}
