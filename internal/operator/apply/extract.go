package apply

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// fieldSet contains the fields of a Secret that a manager owns, in the format FieldsV1 of the managed
// fields. It lists only the fields that the operator sets.
type fieldSet struct {
	Metadata struct {
		Labels          map[string]struct{} `json:"f:labels"`
		Annotations     map[string]struct{} `json:"f:annotations"`
		OwnerReferences map[string]struct{} `json:"f:ownerReferences"`
	} `json:"f:metadata"`
	Data map[string]struct{} `json:"f:data"`
	Type *struct{}           `json:"f:type"`
}

// extract returns the fields that the operator owns in a Secret, like corev1ac.ExtractSecret.
// ExtractSecret took a fifth of the operator's CPU time, because it supports all types. Unlike
// ExtractSecret, extract includes the fields that the operator owns because it created the Secret.
// It fails if the operator owns a field that it never sets.
func extract(live *corev1.Secret) (*corev1ac.SecretApplyConfiguration, error) {
	owned := corev1ac.Secret(live.Name, live.Namespace)
	for _, entry := range live.ManagedFields {
		if entry.Manager != v1alpha1.FieldOwner || entry.Subresource != "" {
			continue
		}
		var fields fieldSet
		decoder := json.NewDecoder(bytes.NewReader(entry.FieldsV1.GetRawBytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&fields); err != nil {
			return nil, fmt.Errorf("reading the managed fields: %w", err)
		}
		fields.extract(live, owned)
	}
	return owned, nil
}

// extract adds the fields of the set to owned.
func (f *fieldSet) extract(live *corev1.Secret, owned *corev1ac.SecretApplyConfiguration) {
	owned.WithLabels(only(live.Labels, f.Metadata.Labels))
	owned.WithAnnotations(only(live.Annotations, f.Metadata.Annotations))
	owned.WithData(only(live.Data, f.Data))
	if f.Type != nil {
		owned.WithType(live.Type)
	}
	for i := range live.OwnerReferences {
		reference := &live.OwnerReferences[i]
		if _, ok := f.Metadata.OwnerReferences[fmt.Sprintf(`k:{"uid":%q}`, reference.UID)]; ok {
			owned.WithOwnerReferences(ownerReference(reference))
		}
	}
}

// only returns the entries whose keys are in the field set.
func only[V any](values map[string]V, fields map[string]struct{}) map[string]V {
	owned := make(map[string]V, len(fields))
	for key, value := range values {
		if _, ok := fields["f:"+key]; ok {
			owned[key] = value
		}
	}
	return owned
}

func ownerReference(reference *metav1.OwnerReference) *metav1ac.OwnerReferenceApplyConfiguration {
	return &metav1ac.OwnerReferenceApplyConfiguration{
		APIVersion: &reference.APIVersion, Kind: &reference.Kind, Name: &reference.Name, UID: &reference.UID,
		Controller: reference.Controller, BlockOwnerDeletion: reference.BlockOwnerDeletion,
	}
}
