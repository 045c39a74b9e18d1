package plugin_test

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// objects returns all Realms, ApiClients, and Secrets, with everything that a write would change.
func objects(t *testing.T, cluster *env.Env) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, gvk := range []string{"RealmList", "ApiClientList", "SecretList"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(gvk))
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

// written returns the objects and records without what the API server adds to them, and with names instead
// of UIDs, so that the state after two restores can be compared.
func written(t *testing.T, cluster *env.Env) map[string]string {
	t.Helper()
	got := map[string]string{}
	var names []string // pairs of UIDs and names
	encoded := objects(t, cluster)
	parsed := map[string]*unstructured.Unstructured{}
	for name, object := range encoded {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(object), &o.Object); err != nil {
			t.Fatal(err)
		}
		parsed[name] = o
		if o.GetKind() != "Secret" {
			names = append(names, string(o.GetUID()), "<"+o.GetKind()+" "+o.GetName()+">")
		}
	}
	for name, o := range parsed {
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		if o.GetLabels()[v1beta1.RecordLabel] != "" {
			data, _, _ := unstructured.NestedString(o.Object, "data", record.DataKey)
			body, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				t.Fatal(err)
			}
			name = "record of " + o.GetAnnotations()[v1beta1.OwnerAnnotation]
			unstructured.RemoveNestedField(o.Object, "metadata", "name")
			unstructured.RemoveNestedField(o.Object, "data")
			o.Object["body"] = restoredAt.ReplaceAllString(string(body), `"$1":"TIME"`)
		}
		again, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = strings.NewReplacer(names...).Replace(string(again))
	}
	return got
}

// restoredAt matches the times in a record that depend on when it was restored.
var restoredAt = regexp.MustCompile(`"(at|endsAt)":"[^"]*"`)
