package realm

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// collect deletes the records of deleted Realms with the same name, and what the operator remembers of one that
// doesn't exist any more.
func (r *Reconciler) collect(ctx context.Context, req ctrl.Request, seen *observed) error {
	var uid types.UID
	if seen.realm != nil {
		uid = seen.realm.UID
	} else {
		r.Tracker.Forget(acknowledgement.Realm, req)
		r.Metrics.ForgetRealm(req.Name)
		r.Events.Forget(req.NamespacedName)
		r.Issuers.Forget(req.Name)
	}
	own, err := r.Records.OfOwner(req.NamespacedName)
	if err != nil {
		return err
	}
	return r.Records.DeleteOrphans(ctx, recordstore.OfKind(record.KindRealm, own), notOf(uid), func(ctx context.Context) (recordstore.Orphaned, error) {
		current, err := recordstore.CurrentUID(ctx, r.Live, req.NamespacedName, &v1beta1.Realm{})
		return notOf(current), err
	})
}

// notOf reports whether a record belongs to another Realm than the one with the given UID.
func notOf(realm types.UID) recordstore.Orphaned {
	return func(secret *corev1.Secret) bool { return record.RealmUID(secret) != realm }
}
