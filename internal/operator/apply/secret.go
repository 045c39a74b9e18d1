package apply

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Secret creates the desired Secret or changes known, and returns the result. known is nil if no Secret is
// known to exist. It may be one from a cache; see Unpack.
//
// Secret never changes a Secret other than known. A creation fails if the Secret already exists, and a
// change fails with a conflict if known is not the latest version. Therefore no decision based on a stale
// read takes effect. IsStale returns true for both errors.
//
// Labels, annotations and data of others stay. Server-side apply would keep them too, but it can't create
// a Secret only if there is none, and it doesn't remove what was created otherwise. So the annotation
// v1beta1.AppliedFieldsAnnotation names what the operator has set, and a change removes what it no longer
// sets.
func Secret(ctx context.Context, c client.Client, known *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	wanted := newContent(desired)
	desired.WithAnnotations(map[string]string{v1beta1.AppliedFieldsAnnotation: wanted.Fields})
	if known == nil {
		return createSecret(ctx, c, desired)
	}
	if digestOf(known) == wanted.digest() {
		return known, nil
	}
	patch, err := json.Marshal(newPatch(known, desired))
	if err != nil {
		return nil, fmt.Errorf("encoding the change of Secret %s: %w", client.ObjectKeyFromObject(known), err)
	}
	changed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: known.Namespace, Name: known.Name}}
	err = c.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1beta1.FieldOwner))
	if err = deleted(err); err != nil {
		return nil, fmt.Errorf("changing Secret %s: %w", client.ObjectKeyFromObject(known), err)
	}
	return changed, nil
}

// Unchanged reports whether Secret would write nothing.
func Unchanged(known *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) bool {
	wanted := newContent(desired)
	return known != nil && digestOf(known) == wanted.digest()
}

func createSecret(ctx context.Context, c client.Client, desired *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	secret, err := Convert[corev1.Secret](desired)
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, secret, client.FieldOwner(v1beta1.FieldOwner)); err != nil {
		return nil, fmt.Errorf("creating Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return secret, nil
}

// content is what the operator sets in a Secret.
type content struct {
	// Fields is the value of v1beta1.AppliedFieldsAnnotation.
	Fields      string
	Type        corev1.SecretType
	Controller  string // UID
	Labels      map[string]string
	Annotations map[string]string
	Data        map[string][]byte
}

// fieldNames contains the keys that the operator has set in a Secret.
type fieldNames struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	Data        []string `json:"data,omitempty"`
}

// newContent returns the content of a desired Secret.
func newContent(desired *corev1ac.SecretApplyConfiguration) content {
	annotations := maps.Clone(desired.Annotations)
	delete(annotations, v1beta1.AppliedFieldsAnnotation)
	c := content{Type: corev1.SecretTypeOpaque, Labels: desired.Labels, Annotations: annotations, Data: desired.Data}
	if desired.Type != nil {
		c.Type = *desired.Type
	}
	for i := range desired.OwnerReferences {
		c.Controller = string(*desired.OwnerReferences[i].UID)
	}
	fields := fieldNames{Labels: slices.Sorted(maps.Keys(c.Labels)), Annotations: slices.Sorted(maps.Keys(annotations)), Data: slices.Sorted(maps.Keys(c.Data))}
	c.Fields = string(encode(fields))
	return c
}

// digestOf returns the digest of what the operator has set in a Secret.
func digestOf(live *corev1.Secret) string {
	if digest, ok := live.Annotations[digestKey]; ok {
		return digest
	}
	fields := fieldsOf(live)
	c := content{
		Fields: live.Annotations[v1beta1.AppliedFieldsAnnotation], Type: live.Type,
		Labels: only(live.Labels, fields.Labels), Annotations: only(live.Annotations, fields.Annotations), Data: only(live.Data, fields.Data),
	}
	if controller := metav1.GetControllerOf(live); controller != nil {
		c.Controller = string(controller.UID)
	}
	return c.digest()
}

// digest returns a digest that differs for different content.
func (c *content) digest() string {
	all := make([]byte, 0, 2<<10)
	text := func(value string) {
		all = binary.AppendUvarint(all, uint64(len(value)))
		all = append(all, value...)
	}
	for _, value := range []string{c.Fields, string(c.Type), c.Controller} {
		text(value)
	}
	for _, values := range []map[string]string{c.Labels, c.Annotations} {
		all = binary.AppendUvarint(all, uint64(len(values)))
		for _, key := range slices.Sorted(maps.Keys(values)) {
			text(key)
			text(values[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		text(key)
		all = binary.AppendUvarint(all, uint64(len(c.Data[key])))
		all = append(all, c.Data[key]...)
	}
	sum := sha256.Sum256(all)
	return string(sum[:])
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // Maps of strings always encode.
	}
	return data
}

// fieldsOf returns the keys that the operator has set. There are none if someone else has changed the
// annotation to something else than the operator writes.
func fieldsOf(live *corev1.Secret) fieldNames {
	var fields fieldNames
	if json.Unmarshal([]byte(live.Annotations[v1beta1.AppliedFieldsAnnotation]), &fields) != nil {
		return fieldNames{}
	}
	return fields
}

func only[V any](values map[string]V, keys []string) map[string]V {
	some := make(map[string]V, len(keys))
	for _, key := range keys {
		if value, ok := values[key]; ok {
			some[key] = value
		}
	}
	return some
}

// patch is a JSON merge patch (RFC 7396) of a Secret. A null removes a key.
type patch struct {
	Metadata struct {
		ResourceVersion string                                      `json:"resourceVersion"`
		Labels          map[string]*string                          `json:"labels,omitempty"`
		Annotations     map[string]*string                          `json:"annotations,omitempty"`
		OwnerReferences []metav1ac.OwnerReferenceApplyConfiguration `json:"ownerReferences,omitempty"`
	} `json:"metadata"`
	Type corev1.SecretType  `json:"type,omitempty"`
	Data map[string]*[]byte `json:"data,omitempty"`
}

// newPatch returns the change of live to the desired Secret.
func newPatch(live *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) patch {
	fields, p := fieldsOf(live), patch{}
	p.Metadata.ResourceVersion = live.ResourceVersion
	p.Metadata.Labels = changes(fields.Labels, desired.Labels)
	p.Metadata.Annotations = changes(fields.Annotations, desired.Annotations)
	if desired.Type != nil {
		p.Type = *desired.Type // The API server rejects a change.
	}
	p.Data = changes(fields.Data, desired.Data)
	if metav1.GetControllerOf(live) == nil {
		p.Metadata.OwnerReferences = desired.OwnerReferences
	}
	return p
}

// changes returns the desired values, and nil for each key that is no longer desired.
func changes[V any](keys []string, desired map[string]V) map[string]*V {
	all := make(map[string]*V, len(keys)+len(desired))
	for _, key := range keys {
		all[key] = nil
	}
	for key, value := range desired {
		all[key] = &value
	}
	return all
}
