package report

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ReportedObject returns what a support bundle contains of a Realm, an ApiClient, or an Instance.
func ReportedObject(u *unstructured.Unstructured) map[string]any {
	return redactObject(u, map[string]fields{"Realm": realmFields, "ApiClient": clientFields, "Instance": instanceFields}[u.GetKind()])
}
