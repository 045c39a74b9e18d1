// Package apply writes Kubernetes objects using the operator's field manager. It writes an object
// only if the owned fields change, so reconciling an unchanged cluster writes nothing.
package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// Object applies desired unless the operator already owns exactly these fields in live. live is nil
// if the object doesn't exist.
//
// Object keeps the fields of other owners and removes fields that the operator owns and no longer
// desires. A change fails with a conflict if live is not the latest version.
func Object(ctx context.Context, c client.Client, live client.Object, desired runtime.ApplyConfiguration) error {
	if reflect.ValueOf(live).IsNil() {
		return apply(ctx, c, desired)
	}
	if ok, err := upToDate(live, desired); ok || err != nil {
		return err
	}
	return applyTo(ctx, c, live, desired)
}

// applyTo applies desired to the resource version of live.
func applyTo(ctx context.Context, c client.Client, live client.Object, desired runtime.ApplyConfiguration) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired)
	if err != nil {
		return fmt.Errorf("encoding %T: %w", desired, err)
	}
	versioned := &unstructured.Unstructured{Object: content}
	versioned.SetResourceVersion(live.GetResourceVersion())
	if err := apply(ctx, c, client.ApplyConfigurationFromUnstructured(versioned)); err != nil {
		return fmt.Errorf("changing %T %s: %w", live, client.ObjectKeyFromObject(live), err)
	}
	return nil
}

// Secret creates the desired Secret or updates live, and returns the result with the desired data and
// annotations, and with a Summary after an update. live is nil if no Secret is known to exist. It may
// have a Summary, as in a cache or in a previous result. reader must not
// read from a cache.
//
// Secret never changes a Secret other than live. A creation fails if the Secret already exists, and
// an update fails with a conflict if live is not the latest version. Therefore no decision based on
// a stale read takes effect. IsStale returns true for both errors.
func Secret(ctx context.Context, c client.Client, reader client.Reader, live *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	if live == nil {
		return createSecret(ctx, c, desired)
	}
	owned, err := ownedFields(live)
	if err != nil {
		return nil, err
	}
	wanted, err := digest(desired)
	if err != nil || wanted == owned {
		return live, err
	}
	if live, err = withManagedFields(ctx, reader, live); err != nil {
		return nil, err
	}
	version, err := upgradeManager(ctx, c, live)
	if err != nil {
		return nil, err
	}
	desired.WithUID(live.UID).WithResourceVersion(version)
	if err := apply(ctx, c, desired); err != nil {
		return nil, err
	}
	changed := live.DeepCopy()
	changed.ResourceVersion, changed.Data, changed.ManagedFields = *desired.ResourceVersion, desired.Data, nil
	changed.Annotations = maps.Clone(desired.Annotations)
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, ownedKey, wanted)
	return changed, nil
}

// Status applies the status of a Realm or ApiClient. If the object has been deleted, IsStale returns true
// for the error.
func Status(ctx context.Context, c client.Client, desired runtime.ApplyConfiguration) error {
	err := c.Status().Apply(ctx, desired, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership)
	if err = deleted(err); err != nil {
		return fmt.Errorf("applying status: %w", err)
	}
	return nil
}

func apply(ctx context.Context, c client.Client, desired runtime.ApplyConfiguration) error {
	if err := c.Apply(ctx, desired, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %T: %w", desired, err)
	}
	return nil
}

// createSecret uses Create instead of Apply, because only Create fails if the Secret exists.
func createSecret(ctx context.Context, c client.Client, desired *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	secret, err := Convert[corev1.Secret](desired)
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return nil, fmt.Errorf("creating Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return secret, nil
}

// upgradeManager merges the operator's Create entry in the managed fields into its Apply entry, so
// that a later apply removes omitted fields. It returns the new resource version.
func upgradeManager(ctx context.Context, c client.Client, live *corev1.Secret) (string, error) {
	if !createdByOperator(live) {
		return live.ResourceVersion, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(v1alpha1.FieldOwner), v1alpha1.FieldOwner)
	if err != nil {
		return "", fmt.Errorf("upgrading the managed fields of Secret %s: %w", client.ObjectKeyFromObject(live), err)
	}
	upgraded := live.DeepCopy()
	if err := deleted(c.Patch(ctx, upgraded, client.RawPatch(types.JSONPatchType, patch))); err != nil {
		return "", fmt.Errorf("upgrading the managed fields of Secret %s: %w", client.ObjectKeyFromObject(live), err)
	}
	return upgraded.ResourceVersion, nil
}

func createdByOperator(live *corev1.Secret) bool {
	for _, entry := range live.ManagedFields {
		if entry.Manager == v1alpha1.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationUpdate {
			return true
		}
	}
	return false
}

// Convert converts an API type to its apply configuration or back through JSON.
func Convert[C any](from any) (*C, error) {
	to := new(C)
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return nil, fmt.Errorf("converting %T to %T: %w", from, to, err)
	}
	return to, nil
}
