package realm

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// apply writes the record and returns the state of its content at the token servers, and whether the
// record has changed. The state is nil if there is no record or the write failed.
func (r *Reconciler) apply(ctx context.Context, req ctrl.Request, seen *observed, d decision) (state *acknowledgement.State, written bool, err error) {
	secret, content := seen.record, ""
	if d.record != nil {
		desired, err := recordsecret.ForRealm(r.Records.Namespace(), seen.realm, *d.record)
		if err != nil {
			return nil, false, err
		}
		if secret, err = r.Records.Put(ctx, seen.record, desired); err != nil {
			return nil, false, fmt.Errorf("writing the record of Realm %q: %w", req.Name, err)
		}
		content = d.record.Basis.Content
	}
	if secret == nil {
		r.Tracker.Forget(acknowledgement.Realm, req)
		return nil, false, nil // A missing record has no state.
	}
	written = seen.record == nil || secret.ResourceVersion != seen.record.ResourceVersion
	if written {
		r.Tracker.Follow(acknowledgement.Realm, req, served(secret)) // The keys wait for this version.
	}
	current := r.Tracker.State(acknowledgement.Record{Name: secret.Name, Version: cmp.Or(content, secret.ResourceVersion)})
	return &current, written, nil
}

// deleteOrphans deletes the records of other Realms than the one with a UID that have or had its name.
func (r *Reconciler) deleteOrphans(ctx context.Context, name types.NamespacedName, realm types.UID) error {
	own, err := r.Records.OfOwner(name)
	if err != nil {
		return err
	}
	return r.Records.DeleteOrphans(ctx, recordstore.OfKind(record.KindRealm, own), notOf(realm), func(ctx context.Context) (recordstore.Orphaned, error) {
		current, err := recordstore.CurrentUID(ctx, r.Live, name, &v1beta1.Realm{})
		return notOf(current), err
	})
}

// notOf reports whether a record belongs to another Realm than the one with the given UID.
func notOf(realm types.UID) recordstore.Orphaned {
	return func(secret *corev1.Secret) bool { return record.RealmUID(secret) != realm }
}
