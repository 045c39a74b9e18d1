package plugin

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/kubeapi/unknownfields"
)

// droppedFields describes the fields that "kubectl apply" sent, but that the API server dropped because the
// kind doesn't have them. kubectl rejects them by default; --validate=false and some tools don't.
func droppedFields(obj client.Object) []string {
	applied := &unstructured.Unstructured{}
	if err := applied.UnmarshalJSON([]byte(obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation])); err != nil {
		return nil // The object was not applied by kubectl, or with --server-side.
	}
	var notes []string
	for _, field := range unknownfields.Describe(applied) {
		notes = append(notes, "The manifest that was applied has an unknown field, which the API server dropped: "+field)
	}
	return notes
}
