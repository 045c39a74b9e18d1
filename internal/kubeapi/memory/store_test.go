package memory_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
)

// TestSameAsAPIServer in test/integration/api compares all writes with those of an API server.

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

func newStore(t *testing.T, objects ...*unstructured.Unstructured) *memory.Store {
	t.Helper()
	s := testkit.Value(memory.New(memory.Options{
		Resources: memory.Resources(), Types: managedfields.NewDeducedTypeConverter(), Now: time.Now, NewUID: uuid.NewUUID,
	}, objects...))(t)
	return s
}

func create(t *testing.T, s *memory.Store, name string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	object.SetNamespace("apps")
	object.SetName(name)
	if change != nil {
		change(object)
	}
	return testkit.Value(s.Create(t.Context(), object, memory.WriteOptions{Manager: "test"}))(t)
}

func label(t *testing.T, s *memory.Store, name, value string) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":{"app":"` + value + `"}}}`)
	if _, err := s.Patch(t.Context(), secrets, types.NamespacedName{Namespace: "apps", Name: name}, types.MergePatchType, patch, memory.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestSinceSignalsTheNextWrite(t *testing.T) {
	s := newStore(t)
	events, next, err := s.Since(1)
	if len(events) > 0 || err != nil {
		t.Fatalf("%d events, error %v", len(events), err)
	}
	select {
	case <-next:
		t.Fatal("there was no write")
	default:
	}
	create(t, s, "a", nil)
	<-next
	s.SetHistorySize(10)
	for n := range 20 {
		label(t, s, "a", strconv.Itoa(n))
	}
	if _, _, err := s.Since(1); !apierrors.IsResourceExpired(err) {
		t.Errorf("the events since the first revision: error %v, want Expired", err)
	}
}

func TestCollectGarbage(t *testing.T) {
	s := newStore(t)
	owner := create(t, s, "owner", nil)
	ownedBy := func(uid types.UID) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "owner", UID: uid}})
		}
	}
	orphan := create(t, s, "orphan", ownedBy("gone"))
	create(t, s, "owned by the orphan", ownedBy(orphan.GetUID()))
	create(t, s, "owned", ownedBy(owner.GetUID()))
	s.CollectGarbage()
	left, _ := s.List(secrets, memory.Selection{})
	if len(left) != 2 || left[0].GetName() != "owned" || left[1].GetName() != "owner" {
		t.Errorf("%d objects are left", len(left))
	}
}

// What isn't supported is an error.
func TestUnsupported(t *testing.T) {
	s := newStore(t)
	object := create(t, s, "a", nil).DeepCopy()
	object.SetName("b")
	object.SetResourceVersion("")
	object.SetFinalizers([]string{"example.com/f"})
	if _, err := s.Create(t.Context(), object, memory.WriteOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("finalizers: error %v, want BadRequest", err)
	}
	if _, err := s.Patch(t.Context(), secrets, types.NamespacedName{Namespace: "apps", Name: "a"}, types.StrategicMergePatchType, []byte("{}"), memory.WriteOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("strategic merge patch: error %v, want BadRequest", err)
	}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if _, err := s.Create(context.Background(), object, memory.WriteOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("Pod: error %v, want BadRequest", err)
	}
}
