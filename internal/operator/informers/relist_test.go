package informers

import (
	"context"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

// The list after an outage is large. An object that has changed doesn't keep the others in memory.
func TestListIsNotKept(t *testing.T) {
	secret := func(name, version string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	testkit.Do(t, store.Add(secret("unchanged", "1")))
	list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "2"}, Items: []corev1.Secret{*secret("unchanged", "1"), *secret("changed", "2")}}
	value := make([]byte, 1<<20)
	list.Items[0].Data = map[string][]byte{"value": value}
	collected := make(chan struct{})
	runtime.AddCleanup(&value[0], func(done chan struct{}) { close(done) }, collected)
	changes, _, err := compare(store, list)
	if err != nil || len(changes) != 1 {
		t.Fatalf("%d changes, %v; want 1", len(changes), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		runtime.GC()
		select {
		case <-collected:
			runtime.KeepAlive(changes)
			return
		case <-ctx.Done():
			t.Fatal("the unchanged object is still in memory")
		default:
		}
	}
}
