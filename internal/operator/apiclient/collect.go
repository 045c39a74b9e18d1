package apiclient

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// collect deletes the records of deleted ApiClients with the same name, and those of deleted Realms. It releases
// their indexes when no valid token refers to them.
func (r *Reconciler) collect(ctx context.Context, req ctrl.Request, seen *observed) error {
	var uid, realmUID types.UID
	if seen.client != nil {
		uid = seen.client.UID
	} else {
		r.forget(req)
	}
	if seen.realm != nil {
		realmUID = seen.realm.UID
	}
	current := func(ctx context.Context) (recordstore.Orphaned, error) { return r.currentOrphans(ctx, req) }
	var err error
	seen.orphanRelease, err = r.discard(ctx, seen.ofName, orphaned(uid, realmUID), current)
	return err
}

// discard deletes those of the given records that are orphaned, and retires or releases their indexes. It returns when
// the next index is due; zero if there is none.
func (r *Reconciler) discard(ctx context.Context, records []*corev1.Secret, cached recordstore.Orphaned, current func(context.Context) (recordstore.Orphaned, error)) (time.Time, error) {
	if err := r.holdAgain(ctx, records, cached); err != nil {
		return time.Time{}, err
	}
	// The record of the client comes first, because a subject must not be free as long as it is used.
	for _, kind := range []record.Kind{record.KindClient, record.KindSubject} {
		if err := r.Records.DeleteOrphans(ctx, recordstore.OfKind(kind, records), cached, current); err != nil {
			return time.Time{}, err
		}
	}
	return r.releaseOrphans(ctx, recordstore.OfKind(record.KindIndex, records), cached, current)
}

// holdAgain ends the retirement of orphaned indexes that orphaned records of clients have, so that they are retired after
// these records are deleted. A POST that lands late can create such a record after its index was retired, and token
// servers issue tokens until it is deleted. holdAgain replaces the changed records.
func (r *Reconciler) holdAgain(ctx context.Context, records []*corev1.Secret, cached recordstore.Orphaned) error {
	used := map[string]bool{}
	for _, secret := range recordstore.OfKind(record.KindClient, records) {
		if body, err := record.ReadClient(secret); err == nil && body.StatusIndex != nil && cached(secret) {
			used[record.IndexRecordName(body.RealmUID, body.StatusIndex.Index)] = true
		}
	}
	for i, secret := range records {
		body, err := record.ReadIndex(secret)
		if !used[secret.Name] || !cached(secret) || err != nil || body.RetiredAt.IsZero() {
			continue
		}
		body.RetiredAt = time.Time{}
		if records[i], err = r.putOrphan(ctx, secret, body); err != nil {
			return err
		}
	}
	return nil
}

// currentOrphans returns which records are orphaned according to the API server.
func (r *Reconciler) currentOrphans(ctx context.Context, req ctrl.Request) (recordstore.Orphaned, error) {
	c := &v1beta1.ApiClient{}
	uid, err := recordstore.CurrentUID(ctx, r.Live, req.NamespacedName, c)
	if apierrors.IsForbidden(err) {
		if gone, goneErr := r.Namespaces.Gone(ctx, req.Namespace); gone && goneErr == nil {
			uid, err = "", nil // The permissions were deleted with the namespace.
		}
	}
	if err != nil || uid == "" {
		return orphaned("", ""), err
	}
	realmUID, err := recordstore.CurrentUID(ctx, r.Live, client.ObjectKey{Name: c.Spec.RealmRef.Name}, &v1beta1.Realm{})
	return orphaned(uid, realmUID), err
}

// orphaned reports whether a record belongs to another ApiClient or Realm than those with the given
// UIDs. An unreadable record is orphaned only if the ApiClient or the Realm was deleted.
func orphaned(uid, realmUID types.UID) recordstore.Orphaned {
	return func(secret *corev1.Secret) bool {
		if uid == "" || realmUID == "" {
			return true
		}
		switch record.KindOf(secret) {
		case record.KindSubject:
			body, err := record.ReadSubject(secret)
			return err == nil && (body.UID != uid || body.RealmUID != realmUID)
		case record.KindIndex:
			body, err := record.ReadIndex(secret)
			return err == nil && (body.UID != uid || body.RealmUID != realmUID)
		}
		body, err := record.ReadClient(secret)
		return err == nil && (body.UID != uid || body.RealmUID != realmUID)
	}
}

// withdraw disables the records of an ApiClient in a namespace that the operator doesn't serve,
// because it wouldn't see that the ApiClient is suspended or deleted. The records keep its secrets,
// subjects, and index, in case the namespace is served again. If the namespace was deleted, so are the
// records.
func (r *Reconciler) withdraw(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.forget(req)
	ofName, err := r.Records.OfOwner(req.NamespacedName)
	if err != nil || len(ofName) == 0 {
		return ctrl.Result{}, err
	}
	gone, err := r.Namespaces.Gone(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if gone {
		every := orphaned("", "")
		next, err := r.discard(ctx, ofName, every, func(context.Context) (recordstore.Orphaned, error) { return every, nil })
		return ctrl.Result{RequeueAfter: queue.After(next, r.Now())}, err
	}
	for _, secret := range recordstore.OfKind(record.KindClient, ofName) {
		if err := r.disable(ctx, secret); err != nil {
			return ctrl.Result{}, fmt.Errorf("disabling the record of ApiClient %s, whose namespace is not served: %w", req, err)
		}
	}
	return ctrl.Result{}, nil
}

// disable makes token servers reject the client of a record. They report an unreadable record.
func (r *Reconciler) disable(ctx context.Context, secret *corev1.Secret) error {
	body, err := record.ReadClient(secret)
	if err != nil || body.Disabled {
		return nil //nolint:nilerr // see above
	}
	body.Disabled = true
	desired, err := recordsecret.ForClient(r.Records.Namespace(), body)
	if err != nil {
		return err
	}
	_, err = r.Records.Put(ctx, secret, desired)
	return err
}

// forget drops what the process knows about an ApiClient that was deleted or is not served.
func (r *Reconciler) forget(req ctrl.Request) {
	r.Tracker.Forget(acknowledgement.Client, req)
	r.Events.Forget(req.NamespacedName)
}

// releaseOrphans retires those of the given indexes that are orphaned, and releases those to which no
// valid token refers. It returns when the next one is due; zero if there is none.
func (r *Reconciler) releaseOrphans(ctx context.Context, held []*corev1.Secret, cached recordstore.Orphaned, current func(context.Context) (recordstore.Orphaned, error)) (next time.Time, err error) {
	var orphaned recordstore.Orphaned // according to the API server; nil until it is needed
	retentions := map[types.UID]time.Duration{}
	for _, secret := range held {
		if !cached(secret) {
			continue
		}
		body := readOrphan(secret)
		retention, known := retentions[body.RealmUID]
		if !known {
			if retention, err = r.indexRetention(ctx, body.RealmUID); err != nil {
				return next, err
			}
			retentions[body.RealmUID] = retention
		}
		due := body.RetiredAt.Add(retention)
		if !body.RetiredAt.IsZero() && r.Now().Before(due) {
			next = timestamp.Earliest(next, due)
			continue
		}
		if orphaned == nil {
			if orphaned, err = current(ctx); err != nil {
				return next, err
			}
		}
		if !orphaned(secret) {
			continue
		}
		if !body.RetiredAt.IsZero() || retention == 0 {
			err = r.Records.Delete(ctx, secret)
		} else {
			body.RetiredAt = r.Now().UTC()
			next = timestamp.Earliest(next, body.RetiredAt.Add(retention))
			_, err = r.putOrphan(ctx, secret, body)
		}
		if err != nil {
			return next, err
		}
	}
	return next, nil
}

func (r *Reconciler) putOrphan(ctx context.Context, secret *corev1.Secret, body record.Index) (*corev1.Secret, error) {
	desired, err := recordsecret.ForIndex(r.Records.Namespace(), body)
	if err != nil {
		return nil, err
	}
	changed, err := r.Records.Put(ctx, secret, desired)
	if err != nil {
		return nil, fmt.Errorf("changing orphaned index %d: %w", body.Index, err)
	}
	return changed, nil
}

// readOrphan returns the record of an index. Of an unreadable one, only the name and the owner's name are known.
func readOrphan(secret *corev1.Secret) record.Index {
	body, err := record.ReadIndex(secret)
	if err == nil {
		return body
	}
	owner := record.OwnerName(secret)
	body = record.Index{UID: "unknown", Namespace: owner.Namespace, Name: owner.Name, Serial: 1}
	body.RealmUID, body.Index, _ = record.ParseIndexName(secret.Name)
	return body
}
