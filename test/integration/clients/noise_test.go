package clients_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A tenant changes pairs of objects: a Secret, and the object that refers to it.
type tenant struct {
	inst      *install.Installation
	namespace string
	size      int
	// ignored makes the operator ignore the objects: the Secrets lack the label, and ConfigMaps
	// take the place of ApiClients.
	ignored bool
}

func name(n int) string { return fmt.Sprintf("noisy-%d", n) }

// value returns a secret that a person could have chosen, which is therefore hashed with Argon2id.
func value(n, version int) string { return fmt.Sprintf("a chosen password %d of %d", version, n) }

func (o *tenant) secret(n int) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: name(n)},
		StringData: map[string]string{"client_secret": value(n, 0)},
	}
	if !o.ignored {
		secret.Labels = map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretProvided}
	}
	return secret
}

func (o *tenant) apiClient(n int) *v1alpha1.ApiClient {
	return install.ApiClient(o.namespace, name(n), "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{SecretRef: v1alpha1.SecretKeyReference{Name: name(n)}}}
	})
}

// create creates all objects.
func (o *tenant) create(t testing.TB) {
	t.Helper()
	var creating sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		creating.Go(func() {
			for n := int(next.Add(1)) - 1; n < o.size; n = int(next.Add(1)) - 1 {
				objects := []client.Object{o.secret(n), o.apiClient(n)}
				if o.ignored {
					objects[1] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: name(n)}}
				}
				for _, obj := range objects {
					if err := o.inst.Env.Client.Create(t.Context(), obj); err != nil {
						t.Errorf("Failed to create %T %s: %v", obj, obj.GetName(), err)
					}
				}
			}
		})
	}
	creating.Wait()
}

// change makes the write with the given number: it alternates between the value of a Secret and the
// object that refers to it.
func (o *tenant) change(t testing.TB, write int) error {
	n, version := write/2%o.size, write/2/o.size+1
	meta := metav1.ObjectMeta{Namespace: o.namespace, Name: name(n)}
	var obj client.Object
	var patch string
	switch {
	case write%2 == 0:
		obj, patch = &corev1.Secret{ObjectMeta: meta}, fmt.Sprintf(`{"stringData":{"client_secret":%q}}`, value(n, version))
	case o.ignored:
		obj, patch = &corev1.ConfigMap{ObjectMeta: meta}, fmt.Sprintf(`{"data":{"tokensPerSecond":"%d"}}`, version)
	default:
		obj, patch = &v1alpha1.ApiClient{ObjectMeta: meta}, fmt.Sprintf(`{"spec":{"limits":{"tokensPerSecond":%d}}}`, version)
	}
	return o.inst.Env.Client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// makeNoise makes 100 writes per second until the returned function is called, which returns the
// number of writes. first is the number of the first one.
func (o *tenant) makeNoise(t testing.TB, first int) (stop func() int) {
	t.Helper()
	const interval = time.Second / 100
	done := make(chan struct{})
	var writing sync.WaitGroup
	var write atomic.Int64
	write.Store(int64(first))
	numbers := make(chan int, 16)
	for range 16 {
		writing.Go(func() {
			for n := range numbers {
				if err := o.change(t, n); err != nil {
					t.Errorf("Failed to write: %v", err)
					return
				}
			}
		})
	}
	writing.Go(func() {
		defer close(numbers)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				select {
				case numbers <- int(write.Add(1)) - 1:
				case <-done:
					return
				}
			}
		}
	})
	return func() int {
		close(done)
		writing.Wait()
		return int(write.Load())
	}
}
