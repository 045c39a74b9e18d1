package apiclient

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// gatherRealm reads the Realm and the namespaces that its grants depend on. The caches of ApiClients and
// namespaces are filled separately, so gatherRealm reads a namespace that the cache lacks from the API
// server.
func (r *Reconciler) gatherRealm(ctx context.Context, seen *observed) error {
	if seen.live {
		return readRealm(ctx, r.Live, r.Namespaces.Live, seen)
	}
	if err := readRealm(ctx, r.Client, r.Namespaces.Get, seen); err != nil || seen.realm == nil || seen.namespace != nil {
		return err
	}
	var err error
	seen.namespace, err = r.Namespaces.Live(ctx, seen.client.Namespace)
	return err
}

// gatherRecord reads the record with the client's ID. If the client would acquire an ID that it
// chose itself, gatherRecord reads the Realm and the namespaces again from the API server: with a
// grant that only the cache still contains, the client could take an ID and keep it.
func (r *Reconciler) gatherRecord(ctx context.Context, seen *observed) error {
	if seen.realm == nil {
		return nil
	}
	get := r.Records.Get
	switch {
	case seen.live:
		get = r.Records.Live
	case seen.client.Status.ObservedGeneration <= 0:
		// A new client has no record yet, which saves a request. If it has one, the creation fails, and
		// the API server is asked.
		get = r.Records.Cached
	}
	secret, err := get(ctx, record.ClientSecretName(seen.realm.UID, seen.client.EffectiveClientID()))
	if err != nil {
		return err
	}
	seen.read(secret)
	switch {
	case seen.record != nil:
		seen.otherNamespace = "" // See readLiveRealm.
		req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(seen.client)}
		seen.acknowledged = r.Tracker.State(acknowledgement.Client, req, seen.served(seen.record.ResourceVersion)...) == acknowledgement.Acknowledged
	case seen.holder.Name == "" && seen.client.Spec.ClientID != "" && !seen.live:
		return r.readLiveRealm(ctx, seen)
	}
	return nil
}

// readLiveRealm reads the Realm and the namespaces again, from the API server.
func (r *Reconciler) readLiveRealm(ctx context.Context, seen *observed) error {
	cached := seen.realm
	if err := readRealm(ctx, r.Live, r.Namespaces.Live, seen); err != nil {
		return err
	}
	if seen.realm != nil && seen.realm.UID != cached.UID {
		seen.realm = nil // The cache is about to deliver the recreated Realm, which has other records.
	}
	if seen.record != nil {
		// The client already holds its ID. Otherwise, anyone who can create a namespace could stop it.
		seen.otherNamespace = ""
	}
	return nil
}

// namespaceReader reads a namespace; nil if it doesn't exist.
type namespaceReader func(ctx context.Context, name string) (*corev1.Namespace, error)

func readRealm(ctx context.Context, from client.Reader, namespace namespaceReader, seen *observed) error {
	c := seen.client
	seen.realm, seen.namespace, seen.otherNamespace = nil, nil, ""
	realm := &v1alpha1.Realm{}
	err := from.Get(ctx, client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Realm %q: %w", c.Spec.RealmRef.Name, err)
	case realm.DeletionTimestamp.IsZero():
		seen.realm = realm
	}
	if seen.namespace, err = namespace(ctx, c.Namespace); err != nil {
		return err
	}
	other := resembledNamespace(c)
	if other == "" {
		return nil
	}
	found, err := namespace(ctx, other)
	if found != nil {
		seen.otherNamespace = other
	}
	return err
}

// resembledNamespace returns the other namespace whose default client IDs look like spec.clientId;
// empty if there can be none. The namespace may not exist.
func resembledNamespace(c *v1alpha1.ApiClient) string {
	other, _, found := strings.Cut(c.Spec.ClientID, ".")
	// Reading a namespace with an invalid name, such as "a/b", can fail with an error other than not
	// found.
	if !found || other == c.Namespace || len(validation.IsDNS1123Label(other)) > 0 {
		return ""
	}
	return other
}

// deleteOrphans deletes the records of deleted ApiClients with the same name, and those of deleted
// Realms. uid is empty if the ApiClient was deleted.
func (r *Reconciler) deleteOrphans(ctx context.Context, req ctrl.Request, uid types.UID, realm *v1alpha1.Realm) error {
	var realmUID types.UID
	if realm != nil {
		realmUID = realm.UID
	}
	current := func(ctx context.Context) (recordstore.Orphaned, error) {
		c := &v1alpha1.ApiClient{}
		uid, err := recordstore.CurrentUID(ctx, r.Live, req.NamespacedName, c)
		if apierrors.IsForbidden(err) {
			if gone, goneErr := r.Namespaces.Gone(ctx, req.Namespace); gone && goneErr == nil {
				uid, err = "", nil // The permissions were deleted with the namespace.
			}
		}
		if err != nil || uid == "" {
			return orphaned("", ""), err
		}
		realmUID, err := recordstore.CurrentUID(ctx, r.Live, client.ObjectKey{Name: c.Spec.RealmRef.Name}, &v1alpha1.Realm{})
		return orphaned(uid, realmUID), err
	}
	// The record of the client comes first, because a subject must not be free as long as it is used.
	for _, kind := range []record.Kind{record.KindClient, record.KindSubject} {
		if err := r.Records.DeleteOrphans(ctx, kind, req.NamespacedName, orphaned(uid, realmUID), current); err != nil {
			return err
		}
	}
	return nil
}

// orphaned reports whether a record belongs to another ApiClient or Realm than those with the given
// UIDs. An unreadable record is orphaned only if the ApiClient or the Realm was deleted.
func orphaned(uid, realmUID types.UID) recordstore.Orphaned {
	return func(secret *corev1.Secret) bool {
		if uid == "" || realmUID == "" {
			return true
		}
		if record.KindOf(secret) == record.KindSubject {
			body, err := record.ReadSubject(secret)
			return err == nil && (body.UID != uid || body.RealmUID != realmUID)
		}
		body, err := record.ReadClient(secret)
		return err == nil && (body.UID != uid || body.RealmUID != realmUID)
	}
}
