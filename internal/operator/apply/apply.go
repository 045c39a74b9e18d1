// Package apply writes Kubernetes objects using the operator's field manager. It writes an object
// only if the owned fields change, so reconciling an unchanged cluster writes nothing.
package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
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

// Status applies the status of a Realm, an ApiClient, or the Instance. If the object has been deleted,
// IsStale returns true for the error.
func Status(ctx context.Context, c client.Client, desired runtime.ApplyConfiguration) error {
	err := c.Status().Apply(ctx, desired, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership)
	if err = deleted(err); err != nil {
		return fmt.Errorf("applying status: %w", err)
	}
	return nil
}

// statusInterval is the shortest time between two writes of a status that contains a count or changes with
// every token server. It limits the writes in a busy cluster.
const statusInterval = 5 * time.Second

// StatusPause returns how long to wait before such a status is written again; zero if it can be written now. It
// reads the time of the last write from the managed fields, so a restarted operator waits as well.
func StatusPause(live client.Object, now time.Time) time.Duration {
	const pause = statusInterval + time.Second // The time of the last write has whole seconds.
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == v1beta1.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "status" && entry.Time != nil {
			return max(0, min(entry.Time.Add(pause).Sub(now), pause)) // The API server's clock may be ahead.
		}
	}
	return 0
}

func apply(ctx context.Context, c client.Client, desired runtime.ApplyConfiguration) error {
	if err := c.Apply(ctx, desired, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %T: %w", desired, err)
	}
	return nil
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
