package scenario

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// State contains the objects in the cluster by kind and name. Times, UIDs and random values are
// masked so that the states of two runs can be compared.
type State map[string]string

// kinds lists the kinds of objects that the operator writes.
var kinds = []schema.GroupVersionKind{
	v1beta1.GroupVersion.WithKind("Realm"),
	v1beta1.GroupVersion.WithKind("ApiClient"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	coordinationv1.SchemeGroupVersion.WithKind("Lease"),
}

// StateOf returns the state of an installation and of one namespace with clients.
func StateOf(t *testing.T, inst *install.Installation, team string) State {
	t.Helper()
	mask := strings.NewReplacer(inst.Namespace, "SYSTEM", team, "TEAM")
	got := State{}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := inst.Env.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for _, obj := range list.Items {
			if ns := obj.GetNamespace(); ns != "" && ns != inst.Namespace && ns != inst.RecordsNamespace && ns != team {
				continue
			}
			if obj.GetName() == beacon.Name { // it changes constantly
				continue
			}
			if kind.Kind == "ConfigMap" && obj.GetName() != tokenservice.BundleName { // reports of uses, written with a delay
				continue
			}
			got[mask.Replace(kind.Kind+" "+nameOf(t, &obj))] = maskRandom(mask.Replace(contentOf(t, &obj)))
		}
	}
	return got
}

// nameOf returns the name of an object. Names of records contain a UID, so for a record it returns
// the owner's name and, if there is one, the subject instead.
func nameOf(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	if owner, ok := obj.GetAnnotations()[v1beta1.OwnerAnnotation]; ok {
		if held, err := record.ReadSubject(secretOf(t, obj)); err == nil {
			return "record of " + owner + " with subject " + held.Subject + " of " + held.Issuer
		}
		return "record of " + owner
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

func contentOf(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	content := map[string]any{
		"labels": obj.GetLabels(), "annotations": obj.GetAnnotations(), "owners": len(obj.GetOwnerReferences()),
		"spec": obj.Object["spec"], "rules": obj.Object["rules"], "subjects": obj.Object["subjects"],
	}
	delete(obj.GetAnnotations(), "deployment.kubernetes.io/revision")
	switch obj.GetKind() {
	case "Realm", "ApiClient":
		status, _, err := unstructured.NestedMap(obj.Object, "status")
		if err != nil {
			t.Fatal(err)
		}
		content["status"] = withoutUses(status)
	case "Service":
		content["spec"], _, _ = unstructured.NestedMap(obj.Object, "spec", "selector")
	case "Lease": // its content changes constantly
		return ""
	case "Secret", "ConfigMap":
		content["data"] = dataOf(t, obj)
	}
	encoded, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// withoutUses removes the last use of credentials from a status, because the operator writes it with
// a delay.
func withoutUses(status map[string]any) map[string]any {
	delete(status, "lastUsedTime")
	delete(status, "credentials")
	secrets, _ := status["secrets"].([]any)
	for _, secret := range secrets {
		if secret, ok := secret.(map[string]any); ok {
			delete(secret, "lastUsedTime")
		}
	}
	return status
}

// dataOf returns the data of a Secret or ConfigMap as text, except for certificates and keys.
func dataOf(t *testing.T, obj *unstructured.Unstructured) map[string]string {
	t.Helper()
	data, _, err := unstructured.NestedStringMap(obj.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	if obj.GetKind() == "Secret" {
		for key, value := range secretOf(t, obj).Data {
			data[key] = string(value)
		}
	}
	for key, value := range data {
		if strings.HasPrefix(value, "-----BEGIN ") {
			data[key] = "PEM"
		}
	}
	return data
}

func secretOf(t *testing.T, obj *unstructured.Unstructured) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// maskRandom replaces values that differ between otherwise identical runs.
func maskRandom(s string) string {
	for _, pattern := range []struct{ find, put string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "UID"},
		{`UID/\d+`, "VERSION"},
		{`\b[0-9a-f]{64}\b`, "SHA256"},
		{`rk_[0-9A-Za-z]+`, "SECRET"},
		{`\$hmac-sha256\$[^"\\]+`, "HASH"},
		{`(\\?"(kid|keyID|x|y|d|id)\\?": ?\\?")[^"\\]+`, "${1}RANDOM"},
		{`realmkeeper\.localhost:\d+`, "ADDRESS"},
		{`(auth\.realmkeeper\.dev/(next-)?client-secret": ")[^"]+`, "${1}MARK"},
		// How many values and versions there were in between depends on the faults.
		{`,\\"secretSerial\\":\d+`, ""},
		{`,\\"basis\\":\{([^{}]|\{[^{}]*\})*\}`, ""},
	} {
		s = regexp.MustCompile(pattern.find).ReplaceAllString(s, pattern.put)
	}
	return s
}

// Records returns the records of an installation.
func Records(t *testing.T, inst *install.Installation) []corev1.Secret {
	t.Helper()
	records := &corev1.SecretList{}
	err := inst.Env.Client.List(t.Context(), records, client.InNamespace(inst.RecordsNamespace), client.HasLabels{v1beta1.RecordLabel})
	if err != nil {
		t.Fatal(err)
	}
	records.Items = slices.DeleteFunc(records.Items, func(s corev1.Secret) bool { return s.Name == beacon.Name })
	for i := range records.Items {
		if record.KindOf(&records.Items[i]) == "" {
			t.Errorf("Secret %s has the record label but is not a record", records.Items[i].Name)
		}
	}
	return records.Items
}
