package backup_test

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// objects returns all Realms, ApiClients, and Secrets, with everything that a write would change.
func objects(t *testing.T, cluster *env.Env) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, gvk := range []string{"RealmList", "ApiClientList", "SecretList"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(gvk))
		if gvk == "SecretList" {
			list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(gvk))
		}
		if err := cluster.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			encoded, err := json.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			got[o.GetKind()+" "+client.ObjectKeyFromObject(o).String()] = string(encoded)
		}
	}
	return got
}

// written returns the objects without what the API server adds to them.
func written(t *testing.T, cluster *env.Env) map[string]string {
	t.Helper()
	got := objects(t, cluster)
	for name, encoded := range got {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(encoded), &o.Object); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		again, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(again)
	}
	return got
}

func keys(of map[string]string) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
