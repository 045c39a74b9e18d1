package apply

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownedKey is the annotation of a cached Secret with the digest of the fields that the operator
// owns. The API server rejects this key, so no user can set the annotation.
const ownedKey = "Realmkeeper Owned Fields"

// Summary returns the annotations with which a Secret is cached instead of its managed fields. The
// managed fields of most Secrets need more memory than the rest. With these annotations, the
// function Secret still detects every change to the fields that the operator owns, even if the
// cached Secret lacks these fields. If the managed fields can't be read, Summary returns NoSummary.
func Summary(live *corev1.Secret) map[string]string {
	owned, err := ownedFields(live)
	if err != nil {
		return NoSummary() // Secret reads the managed fields again, and returns the error.
	}
	return map[string]string{ownedKey: owned}
}

// Summarized reports whether a Secret has annotations from Summary. Client libraries transform objects
// more than once before they cache them.
func Summarized(cached *corev1.Secret) bool {
	_, ok := cached.Annotations[ownedKey]
	return ok && len(cached.ManagedFields) == 0
}

// NoSummary returns the annotations of a cached Secret whose owned fields are unknown. The function
// Secret reads such a Secret again before it changes it.
func NoSummary() map[string]string { return map[string]string{ownedKey: ""} }

// ownedFields returns a digest of the fields that the operator owns in a Secret. A Secret without
// managed fields comes from a cache, because the API server always sets them.
func ownedFields(live *corev1.Secret) (string, error) {
	if len(live.ManagedFields) == 0 {
		return live.Annotations[ownedKey], nil
	}
	owned, err := extract(live)
	if err != nil {
		return "", fmt.Errorf("extracting the owned fields of Secret %s: %w", client.ObjectKeyFromObject(live), err)
	}
	return digest(owned)
}

func digest(fields *corev1ac.SecretApplyConfiguration) (string, error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("encoding the fields of Secret %s: %w", *fields.GetName(), err)
	}
	sum := sha256.Sum256(data)
	return string(sum[:]), nil
}

var errChanged = errors.New("the Secret has changed since it was cached")

// withManagedFields returns a cached Secret with its managed fields. It fails with a conflict if
// the API server has another version of the Secret.
func withManagedFields(ctx context.Context, from client.Reader, cached *corev1.Secret) (*corev1.Secret, error) {
	if len(cached.ManagedFields) > 0 {
		return cached, nil
	}
	live := &corev1.Secret{}
	err := from.Get(ctx, client.ObjectKeyFromObject(cached), live)
	if apierrors.IsNotFound(err) || err == nil && (live.UID != cached.UID || live.ResourceVersion != cached.ResourceVersion) {
		err = apierrors.NewConflict(corev1.Resource("secrets"), cached.Name, errChanged)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", client.ObjectKeyFromObject(cached), err)
	}
	return live, nil
}
