package backup

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// NewObject returns the entry of a Realm or ApiClient. It contains what a user or tool sets: the spec,
// the labels, and the annotations, with those of GitOps tools and kubectl. Everything else belongs to
// one cluster, or to a controller that adds it again, such as a finalizer.
func NewObject(object *unstructured.Unstructured) (Entry, error) {
	manifest := &unstructured.Unstructured{Object: map[string]any{}}
	manifest.SetAPIVersion(object.GetAPIVersion())
	manifest.SetKind(object.GetKind())
	manifest.SetNamespace(object.GetNamespace())
	manifest.SetName(object.GetName())
	manifest.SetLabels(object.GetLabels())
	manifest.SetAnnotations(object.GetAnnotations())
	if spec, ok := object.Object["spec"]; ok {
		manifest.Object["spec"] = spec
	}
	encoded, err := manifest.MarshalJSON()
	if err != nil {
		return Entry{}, fmt.Errorf("encoding %s %s: %w", object.GetKind(), nameOf(object), err)
	}
	return Entry{
		Kind: Kind(object.GetKind()), Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		Object: encoded,
	}, nil
}

// Manifest returns the object of an entry of the kind Realm or ApiClient.
//
// Errors: ErrDamaged if the object isn't the one that the entry names.
func (e *Entry) Manifest() (*unstructured.Unstructured, error) {
	manifest := &unstructured.Unstructured{}
	if err := manifest.UnmarshalJSON(e.Object); err != nil {
		return nil, fmt.Errorf("%w (%s %s is not an object)", ErrDamaged, e.Kind, e.String())
	}
	sameKind := manifest.GetKind() == string(e.Kind) && manifest.GroupVersionKind().Group == v1beta1.GroupVersion.Group
	if !sameKind || manifest.GetName() != e.Name || manifest.GetNamespace() != e.Namespace || (e.Kind == KindClient) != (e.Namespace != "") {
		return nil, fmt.Errorf("%w (the object of %s %s has another name or kind)", ErrDamaged, e.Kind, e.String())
	}
	return manifest, nil
}

// String returns the namespace and name of an entry.
func (e *Entry) String() string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

func nameOf(object metav1.Object) string {
	return (&Entry{Namespace: object.GetNamespace(), Name: object.GetName()}).String()
}

// Spec returns the canonical JSON of an object's spec, to compare it with that of another object.
func Spec(object *unstructured.Unstructured) ([]byte, error) {
	return json.Marshal(object.Object["spec"]) // with sorted keys
}
