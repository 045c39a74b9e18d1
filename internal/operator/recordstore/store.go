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
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// byOwner is the name of the cache index of records by name of the owner. Several owners share a key, because
// an index with one key for each owner would need as much memory as the records.
const byOwner = "owner"

// maxOwnerKeys is the number of keys. A read of one owner's records costs time for each owner with the same key:
// for 12 of 100,000.
const maxOwnerKeys = 1 << 13

// byRetired is the name of the cache index of retired indexes by namespace of the owner.
const byRetired = "retired"

// Store reads records from an informer and writes them to the API server.
type Store struct {
	Cache cache.Cache // the cache of the informer, for Source

	informer  toolscache.SharedIndexInformer
	live      client.Reader // bypasses the cache
	client    client.Client
	namespace string
}

// New returns a store for the records in namespace. informer is that of the operator's Secrets in that
// namespace, which may be packed, and must not be started yet.
func New(informer toolscache.SharedIndexInformer, live client.Reader, c client.Client, namespace string) (*Store, error) {
	err := informer.AddIndexers(toolscache.Indexers{byOwner: ownerKeys, byRetired: retiredKeys})
	if err != nil {
		return nil, fmt.Errorf("indexing records: %w", err)
	}
	return &Store{informer: informer, live: live, client: c, namespace: namespace}, nil
}

func ownerKeys(obj any) ([]string, error) {
	if _, owner, ok := recordIn(obj, allKinds...); ok {
		return []string{ownerKey(owner)}, nil
	}
	return nil, nil
}

func retiredKeys(obj any) ([]string, error) {
	if secret, _, ok := recordIn(obj, record.KindIndex); ok {
		if body, err := record.ReadIndex(Unpack(secret)); err == nil && !body.RetiredAt.IsZero() {
			return []string{body.Namespace}, nil
		}
	}
	return nil, nil
}

var allKinds = []record.Kind{record.KindRealm, record.KindClient, record.KindSubject, record.KindIndex}

// Namespace returns the namespace of the records.
func (s *Store) Namespace() string { return s.namespace }

// Get returns the record with the given name, or nil if there is none. A record that is missing
// from the cache may be new or have lost its label, so Get falls back to the API server.
func (s *Store) Get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Cached(name)
	if secret != nil || err != nil {
		return secret, err
	}
	return s.Live(ctx, name)
}

// Cached returns the record with the given name, or nil if the cache contains none. It may be old, and nil may be
// wrong: a record can be new or have lost its label. Use it where a write that follows fails in these cases, or the
// API server is asked before it. Use Get or Live elsewhere.
func (s *Store) Cached(name string) (*corev1.Secret, error) {
	obj, exists, err := s.informer.GetIndexer().GetByKey(s.namespace + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("reading record %s from the cache: %w", name, err)
	}
	if secret, ok := obj.(*corev1.Secret); exists && ok {
		return Unpack(secret), nil
	}
	return nil, nil //nolint:nilnil // A missing record is not an error.
}

// Live returns the record with the given name according to the API server, or nil if there is none.
func (s *Store) Live(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.live.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // A missing record is not an error.
	}
	if err != nil {
		return nil, fmt.Errorf("reading record %s: %w", name, err)
	}
	return secret, nil
}

// Put writes a record with apply.Secret and returns the result. known is the record as it was read; nil creates it.
func (s *Store) Put(ctx context.Context, known *corev1.Secret, desired *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	return apply.Secret(ctx, s.client, known, desired)
}

// OfOwner returns the cached records of all Realms or ApiClients that have or had the given name. The caller
// must not change them.
func (s *Store) OfOwner(owner types.NamespacedName) ([]*corev1.Secret, error) {
	return s.indexed(byOwner, ownerKey(owner), func(other types.NamespacedName) bool { return other == owner })
}

// RetiredIndexes returns the retired indexes of clients, including deleted ones, in a namespace. The caller must
// not change them.
func (s *Store) RetiredIndexes(namespace string) ([]*corev1.Secret, error) {
	return s.indexed(byRetired, namespace, func(types.NamespacedName) bool { return true })
}

// CountRetired returns the number of RetiredIndexes.
func (s *Store) CountRetired(namespace string) (int, error) {
	keys, err := s.informer.GetIndexer().IndexKeys(byRetired, namespace)
	if err != nil {
		return 0, fmt.Errorf("counting the retired indexes of namespace %s: %w", namespace, err)
	}
	return len(keys), nil
}

func (s *Store) indexed(index, key string, selects func(owner types.NamespacedName) bool) ([]*corev1.Secret, error) {
	objects, err := s.informer.GetIndexer().ByIndex(index, key)
	if err != nil {
		return nil, fmt.Errorf("reading records from the cache by %s: %w", index, err)
	}
	var records []*corev1.Secret
	for _, obj := range objects {
		if secret, owner, ok := recordIn(obj, allKinds...); ok && selects(owner) {
			records = append(records, Unpack(secret))
		}
	}
	return records, nil
}

// OfKind returns those of several records that have the given kind.
func OfKind(kind record.Kind, records []*corev1.Secret) []*corev1.Secret {
	return slices.DeleteFunc(slices.Clone(records), func(secret *corev1.Secret) bool { return record.KindOf(secret) != kind })
}

// Orphaned reports whether a record belongs to an owner that no longer exists.
type Orphaned func(*corev1.Secret) bool

// DeleteOrphans deletes those of the given records that are orphaned. Verifiers and keys can't be restored, so
// DeleteOrphans deletes a record only if it is also orphaned according to the API server. cached checks
// against the cached state, and current returns the check against the state in the API server.
func (s *Store) DeleteOrphans(ctx context.Context, records []*corev1.Secret, cached Orphaned, current func(context.Context) (Orphaned, error)) error {
	for _, orphan := range records {
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

// CurrentUID reads an object, and returns its UID. The UID is empty if the object does not exist or is being
// deleted.
func CurrentUID(ctx context.Context, from client.Reader, key client.ObjectKey, into client.Object) (types.UID, error) {
	err := from.Get(ctx, key, into)
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
	return strconv.Itoa(int(hash.Sum32() % maxOwnerKeys))
}
