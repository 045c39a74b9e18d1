// Package apply writes Kubernetes objects under the operator's one field owner, and only
// when what that owner says has changed: a run over an unchanged cluster writes nothing.
package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// Object applies desired, unless live already has exactly that under our field owner.
// live is nil where the object doesn't exist. extract is the Extract function of the
// type's apply configuration.
//
// Fields that others own are left alone; what we own and no longer desire is removed. A
// change fails where live is not the newest version (apierrors.IsConflict).
func Object[O client.Object, C runtime.ApplyConfiguration](ctx context.Context, c client.Client, live O, desired C, extract func(O, string) (C, error)) error {
	if !reflect.ValueOf(live).IsNil() {
		owned, err := extract(live, v1alpha1.FieldOwner)
		if err != nil {
			return fmt.Errorf("reading what the operator owns of %T %s: %w", live, client.ObjectKeyFromObject(live), err)
		}
		if equality.Semantic.DeepEqual(owned, desired) {
			return nil
		}
		return applyTo(ctx, c, live, desired)
	}
	return apply(ctx, c, desired)
}

// applyTo applies desired on the very version of the object that live is.
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

// Secret creates the Secret, or brings live to what is desired, and returns it as it is
// then. live is nil where there is none to our knowledge.
//
// It never touches a Secret other than live: creation fails where one exists
// (apierrors.IsAlreadyExists), and a change fails where live is not the newest version
// (apierrors.IsConflict). So no decision that stands on a stale read takes effect.
func Secret(ctx context.Context, c client.Client, live *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	if live == nil {
		return createSecret(ctx, c, desired)
	}
	owned, err := corev1ac.ExtractSecret(withOneManager(live), v1alpha1.FieldOwner)
	if err != nil {
		return nil, fmt.Errorf("reading what the operator owns of Secret %s: %w", client.ObjectKeyFromObject(live), err)
	}
	if equality.Semantic.DeepEqual(owned, desired) {
		return live, nil
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
	changed.ResourceVersion = *desired.ResourceVersion
	return changed, nil
}

// Status applies the status of an object of ours.
func Status(ctx context.Context, c client.Client, desired runtime.ApplyConfiguration) error {
	if err := c.Status().Apply(ctx, desired, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying a status: %w", err)
	}
	return nil
}

func apply(ctx context.Context, c client.Client, desired runtime.ApplyConfiguration) error {
	if err := c.Apply(ctx, desired, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %T: %w", desired, err)
	}
	return nil
}

// createSecret posts the Secret: of all ways to write an object only this one fails when
// it is already there.
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

// withOneManager returns the Secret with our creation counted as an apply. The two leave
// separate traces in the managed fields.
func withOneManager(live *corev1.Secret) *corev1.Secret {
	if !createdByUs(live) {
		return live
	}
	upgraded := live.DeepCopy()
	if err := csaupgrade.UpgradeManagedFields(upgraded, sets.New(v1alpha1.FieldOwner), v1alpha1.FieldOwner); err != nil {
		return live
	}
	return upgraded
}

// upgradeManager makes our creation count as an apply, so that what we then leave out is
// removed. It returns the resource version after that.
func upgradeManager(ctx context.Context, c client.Client, live *corev1.Secret) (string, error) {
	if !createdByUs(live) {
		return live.ResourceVersion, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(v1alpha1.FieldOwner), v1alpha1.FieldOwner)
	if err != nil {
		return "", fmt.Errorf("upgrading the managed fields of Secret %s: %w", client.ObjectKeyFromObject(live), err)
	}
	upgraded := live.DeepCopy()
	if err := c.Patch(ctx, upgraded, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return "", fmt.Errorf("upgrading the managed fields of Secret %s: %w", client.ObjectKeyFromObject(live), err)
	}
	return upgraded.ResourceVersion, nil
}

func createdByUs(live *corev1.Secret) bool {
	for _, entry := range live.ManagedFields {
		if entry.Manager == v1alpha1.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationUpdate {
			return true
		}
	}
	return false
}

// Convert turns an API type into its apply configuration or back, member by member as JSON has them.
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
