// Package recordstore is where the operator keeps records: the Secrets of the system
// namespace that the package record reads and writes.
package recordstore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// byOwner is the cache index of records by kind and owner's name.
const byOwner = "owner"

// Store reads records from a cache and writes them to the API server.
type Store struct {
	cache     cache.Cache
	live      client.Reader // asks the API server itself
	client    client.Client
	namespace string
	swept     func()
}

// New returns the store of the records in namespace. system is a cache of the Secrets of
// that namespace that are ours, and is not yet started. swept is called for each record that is
// removed.
func New(ctx context.Context, system cache.Cache, live client.Reader, c client.Client, namespace string, swept func()) (*Store, error) {
	err := system.IndexField(ctx, &corev1.Secret{}, byOwner, func(obj client.Object) []string {
		secret, ok := obj.(*corev1.Secret)
		if kind := record.KindOf(secret); ok && kind != "" {
			return []string{ownerKey(kind, record.OwnerName(secret))}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("indexing records by owner: %w", err)
	}
	return &Store{cache: system, live: live, client: c, namespace: namespace, swept: swept}, nil
}

// Namespace is where the records are.
func (s *Store) Namespace() string { return s.namespace }

// Source makes a controller reconcile the owner of a record that changed, also of one
// that was there before the start: so strays are found.
func (s *Store) Source(kind record.Kind) source.SyncingSource {
	return source.Kind(s.cache, client.Object(&corev1.Secret{}),
		handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
			secret, ok := obj.(*corev1.Secret)
			if !ok {
				return nil
			}
			return []reconcile.Request{{NamespacedName: record.OwnerName(secret)}}
		}),
		predicate.NewPredicateFuncs(func(obj client.Object) bool {
			secret, ok := obj.(*corev1.Secret)
			return ok && record.KindOf(secret) == kind
		}))
}

// Get returns the record of the owner with that UID, nil when there is none. Before it
// says that, it asks the API server: what the cache doesn't have may have lost its label.
func (s *Store) Get(ctx context.Context, kind record.Kind, owner types.UID) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.namespace, Name: record.SecretName(kind, owner)}
	err := s.cache.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		err = s.live.Get(ctx, key, secret)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // No record is an answer.
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of %s %s: %w", kind, owner, err)
	}
	return secret, nil
}

// Put writes a record as apply.Secret does, and returns it as it is then.
func (s *Store) Put(ctx context.Context, live *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	return apply.Secret(ctx, s.client, live, desired)
}

// DeleteOrphans deletes the records of that owner which belong to another identity than
// believed, the UID that a cache has; empty for an owner that is gone. Verifiers and keys can't be
// made again, so newest, which asks the API server itself, has the last word.
func (s *Store) DeleteOrphans(ctx context.Context, kind record.Kind, owner types.NamespacedName, believed types.UID, newest func(context.Context) (types.UID, error)) error {
	records := &corev1.SecretList{}
	if err := s.cache.List(ctx, records, client.MatchingFields{byOwner: ownerKey(kind, owner)}); err != nil {
		return fmt.Errorf("listing the records of %s %s: %w", kind, owner, err)
	}
	for i := range records.Items {
		stray := &records.Items[i]
		if record.OwnerUID(stray) == believed {
			continue
		}
		uid, err := newest(ctx)
		if err != nil {
			return err
		}
		if record.OwnerUID(stray) == uid {
			continue
		}
		err = s.client.Delete(ctx, stray, client.Preconditions{UID: &stray.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the record %s of an earlier %s %s: %w", stray.Name, kind, owner, err)
		}
		s.swept()
		ctrl.LoggerFrom(ctx).Info("Record of a deleted object was removed", "record", stray.Name)
	}
	return nil
}

// CurrentUID returns a function that asks the API server for the UID of an object; it is
// empty for one that is gone or going.
func CurrentUID(live client.Reader, key client.ObjectKey, into client.Object) func(context.Context) (types.UID, error) {
	return func(ctx context.Context) (types.UID, error) {
		err := live.Get(ctx, key, into)
		if apierrors.IsNotFound(err) || err == nil && !into.GetDeletionTimestamp().IsZero() {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading %T %s: %w", into, key, err)
		}
		return into.GetUID(), nil
	}
}

func ownerKey(kind record.Kind, owner types.NamespacedName) string {
	return string(kind) + ":" + owner.String()
}
