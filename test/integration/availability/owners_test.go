package availability_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// The garbage collector looks for a namespaced owner only in the namespace of the dependent object,
// and deletes the object if it isn't there.
func TestOwnersAreInTheSameNamespace(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.Pod = operatorPod(t, inst)
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	_, c := scenario.NewClient(t, inst, "acme")
	for _, obj := range tokenService(inst) {
		install.Eventually(t, "the token service", func() error { return cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj) })
	}

	owned := map[string]int{}
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Secret"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		for _, namespace := range []string{inst.Namespace, inst.RecordsNamespace, c.Namespace} {
			if err := cluster.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				owned[kind.Kind] += len(list.Items[i].GetOwnerReferences())
				wantOwnersNearby(t, cluster, &list.Items[i])
			}
		}
	}
	for _, kind := range []string{"Secret", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"} {
		if owned[kind] == 0 {
			t.Errorf("no %s has an owner", kind)
		}
	}
}

// wantOwnersNearby checks that every owner of an object exists, and is in the object's namespace or
// cluster-scoped.
func wantOwnersNearby(t *testing.T, cluster *env.Env, obj *unstructured.Unstructured) {
	t.Helper()
	for _, reference := range obj.GetOwnerReferences() {
		owner := &unstructured.Unstructured{}
		owner.SetAPIVersion(reference.APIVersion)
		owner.SetKind(reference.Kind)
		key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: reference.Name}
		namespaced, err := cluster.Client.IsObjectNamespaced(owner)
		if err == nil && !namespaced {
			key.Namespace = ""
		}
		if err == nil {
			err = cluster.Client.Get(t.Context(), key, owner)
		}
		if err != nil || owner.GetUID() != reference.UID {
			t.Errorf("%s %s has the owner %s %s, which is not in its namespace: %v", obj.GetKind(), client.ObjectKeyFromObject(obj), reference.Kind, reference.Name, err)
		}
	}
}
