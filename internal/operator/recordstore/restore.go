package recordstore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// restores is the name of the cache index of restore records. It has one key.
const restores = "restores"

func restoreKeys(obj client.Object) []string {
	if secret, ok := obj.(*corev1.Secret); ok && record.KindOf(secret) == record.KindRestore {
		return []string{restores}
	}
	return nil
}

// RestoreSource returns a source that reconciles the owner of each changed restore record of the given
// kind of owner, which is record.KindRealm or record.KindClient.
func (s *Store) RestoreSource(owner record.Kind) source.SyncingSource {
	return s.source(func(secret *corev1.Secret) bool {
		return record.KindOf(secret) == record.KindRestore && (record.OwnerName(secret).Namespace == "") == (owner == record.KindRealm)
	})
}

// Restoring reports whether the cache contains any restore record.
func (s *Store) Restoring(ctx context.Context) (bool, error) {
	found := &corev1.SecretList{}
	if err := s.cache.List(ctx, found, client.MatchingFields{restores: restores}, client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing restore records: %w", err)
	}
	return len(found.Items) > 0, nil
}

// MarkAdopted marks a restore record as adopted by an object, and returns the changed record. It fails
// with a conflict if the record has changed since it was read. The record must not be adopted yet.
func (s *Store) MarkAdopted(ctx context.Context, restore *corev1.Secret, adopter string) (*corev1.Secret, error) {
	marked := restore.DeepCopy()
	if marked.Annotations == nil {
		marked.Annotations = map[string]string{}
	}
	marked.Annotations[v1alpha1.AdoptedByAnnotation] = adopter
	patch := client.MergeFromWithOptions(restore, client.MergeFromWithOptimisticLock{})
	err := s.client.Patch(ctx, marked, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsNotFound(err) {
		err = apierrors.NewConflict(corev1.Resource("secrets"), restore.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("marking restore record %s as adopted: %w", restore.Name, err)
	}
	return marked, nil
}
