// Package recordstore reads and writes the operator's records, which are Secrets in the records
// namespace. The record package defines their content.
package recordstore

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// byOwner is the name of the cache index of records by name of the owner. Several owners share a key, because
// an index with one key for each owner would need as much memory as the records.
const byOwner = "owner"

// ownerKeys is the number of keys. A read of one owner's records costs time for each owner with the same key:
// for 12 of 100,000.
const ownerKeys = 1 << 13

// byRetired is the name of the cache index of retired indexes by namespace of the owner.
const byRetired = "retired"

// Store reads records from a cache and writes them to the API server.
type Store struct {
	cache     cache.Cache
	live      client.Reader // bypasses the cache
	client    client.Client
	namespace string
	collected func()
}

// New returns a store for the records in namespace. secrets is a cache of the operator's Secrets in
// that namespace and must not be started yet. The store calls collected for each deleted orphan.
func New(ctx context.Context, secrets cache.Cache, live client.Reader, c client.Client, namespace string, collected func()) (*Store, error) {
	err := secrets.IndexField(ctx, &corev1.Secret{}, byOwner, func(obj client.Object) []string {
		secret, ok := obj.(*corev1.Secret)
		if kind := record.KindOf(secret); ok && kind != "" {
			return []string{ownerKey(record.OwnerName(secret))}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("indexing records by owner: %w", err)
	}
	err = secrets.IndexField(ctx, &corev1.Secret{}, byRetired, func(obj client.Object) []string {
		if secret, ok := obj.(*corev1.Secret); ok && record.KindOf(secret) == record.KindIndex {
			if body, err := record.ReadIndex(secret); err == nil && !body.RetiredAt.IsZero() {
				return []string{body.Namespace}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("indexing retired indexes by namespace: %w", err)
	}
	return &Store{cache: secrets, live: live, client: c, namespace: namespace, collected: collected}, nil
}

// Namespace returns the namespace of the records.
func (s *Store) Namespace() string { return s.namespace }

// Source returns a source that reconciles the owner of each changed record. It also reconciles the
// owners of all records at startup to find orphans. A new list of unchanged records reconciles nothing.
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
		}), predicate.ResourceVersionChangedPredicate{})
}

// DeletionSource returns a source that reconciles the requests that follow from a deleted record.
func (s *Store) DeletionSource(kind record.Kind, requests func(context.Context, *corev1.Secret) []reconcile.Request) source.SyncingSource {
	return source.Kind(s.cache, client.Object(&corev1.Secret{}), handler.Funcs{
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if secret, ok := e.Object.(*corev1.Secret); ok && record.KindOf(secret) == kind {
				for _, request := range requests(ctx, secret) {
					queue.Add(request)
				}
			}
		},
	})
}

// Get returns the record with the given name, or nil if there is none. A record that is missing
// from the cache may be new or have lost its label, so Get falls back to the API server.
func (s *Store) Get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Cached(ctx, name)
	if secret != nil || err != nil {
		return secret, err
	}
	return s.Live(ctx, name)
}

// Cached returns the record with the given name, or nil if the cache contains none. Use it only
// before creating the record, because the creation fails if the record exists.
func (s *Store) Cached(ctx context.Context, name string) (*corev1.Secret, error) {
	return s.read(ctx, s.cache, name)
}

// Live returns the record with the given name according to the API server, or nil if there is none.
func (s *Store) Live(ctx context.Context, name string) (*corev1.Secret, error) {
	return s.read(ctx, s.live, name)
}

func (s *Store) read(ctx context.Context, from client.Reader, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := from.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // A missing record is not an error.
	}
	if err != nil {
		return nil, fmt.Errorf("reading record %s: %w", name, err)
	}
	return secret, nil
}

// Put writes a record with apply.Secret and returns the result.
func (s *Store) Put(ctx context.Context, live *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	return apply.Secret(ctx, s.client, live, desired)
}

// OfOwner returns the records of all Realms or ApiClients that have or had the given name. The caller must not
// change them.
func (s *Store) OfOwner(ctx context.Context, owner types.NamespacedName) ([]corev1.Secret, error) {
	candidates := &corev1.SecretList{}
	if err := s.cache.List(ctx, candidates, client.MatchingFields{byOwner: ownerKey(owner)}); err != nil {
		return nil, fmt.Errorf("listing the records of %s: %w", owner, err)
	}
	return slices.DeleteFunc(candidates.Items, func(secret corev1.Secret) bool { return record.OwnerName(&secret) != owner }), nil
}

// OfKind returns those of several records that have the given kind.
func OfKind(kind record.Kind, records []corev1.Secret) []corev1.Secret {
	var selected []corev1.Secret
	for i := range records {
		if record.KindOf(&records[i]) == kind {
			selected = append(selected, records[i])
		}
	}
	return selected
}

// RetiredIndexes returns the retired indexes of clients, including deleted ones, in a namespace, at most
// limit unless that is 0. The caller must not change them.
func (s *Store) RetiredIndexes(ctx context.Context, namespace string, limit int64) ([]corev1.Secret, error) {
	records := &corev1.SecretList{}
	if err := s.cache.List(ctx, records, client.MatchingFields{byRetired: namespace}, client.Limit(limit)); err != nil {
		return nil, fmt.Errorf("listing the retired indexes of namespace %s: %w", namespace, err)
	}
	return records.Items, nil
}

// Orphaned reports whether a record belongs to an owner that no longer exists.
type Orphaned func(*corev1.Secret) bool

// DeleteOrphans deletes those of the given records that are orphaned. Verifiers and keys can't be restored, so
// DeleteOrphans deletes a record only if it is also orphaned according to the API server. cached checks
// against the cached state, and current returns the check against the state in the API server.
func (s *Store) DeleteOrphans(ctx context.Context, records []corev1.Secret, cached Orphaned, current func(context.Context) (Orphaned, error)) error {
	for i := range records {
		orphan := &records[i]
		if !cached(orphan) {
			continue
		}
		orphaned, err := current(ctx)
		if err != nil {
			return err
		}
		if !orphaned(orphan) {
			continue
		}
		if err := s.Delete(ctx, orphan); err != nil {
			return fmt.Errorf("deleting an orphaned record of %s: %w", record.OwnerName(orphan), err)
		}
		s.collected()
		ctrl.LoggerFrom(ctx).Info("Deleted orphaned record", "record", orphan.Name)
	}
	return nil
}

// Delete deletes a record unless it has changed since it was read. A record that no longer exists
// is not an error.
func (s *Store) Delete(ctx context.Context, secret *corev1.Secret) error {
	err := s.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting record %s: %w", secret.Name, err)
	}
	return nil
}

// CurrentUID reads the UID of an object from the API server. The UID is empty if the object does
// not exist or is being deleted.
func CurrentUID(ctx context.Context, live client.Reader, key client.ObjectKey, into client.Object) (types.UID, error) {
	err := live.Get(ctx, key, into)
	if apierrors.IsNotFound(err) || err == nil && !into.GetDeletionTimestamp().IsZero() {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %T %s: %w", into, key, err)
	}
	return into.GetUID(), nil
}

func ownerKey(owner types.NamespacedName) string {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, owner.Namespace) // it never fails
	_, _ = io.WriteString(hash, "/")
	_, _ = io.WriteString(hash, owner.Name)
	return strconv.Itoa(int(hash.Sum32() % ownerKeys))
}
