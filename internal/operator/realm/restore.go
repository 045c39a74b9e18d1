package realm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// gatherRestore reads the restore record for the realm's name. If the realm has no record yet, it asks
// the API server, because the cache may lack the restore record. The realm would then sign with a new
// key first.
func (r *Reconciler) gatherRestore(ctx context.Context, seen *observed) error {
	get := r.Records.Cached
	if seen.record == nil {
		get = r.Records.Get
	}
	secret, err := get(ctx, record.RealmRestoreName(seen.realm.Name))
	if err != nil {
		return err
	}
	seen.readRestore(secret)
	return nil
}

// readRestore decodes the restore record for the realm's name. The Secret may be nil.
func (o *observed) readRestore(secret *corev1.Secret) {
	o.restore, o.restored, o.ignored = secret, record.Restore{}, nil
	if secret == nil {
		return
	}
	var err error
	o.restored, err = record.ReadRestore(secret)
	switch adopter := record.Adopter(secret); {
	case err != nil:
		o.ignored = ignored("The operator cannot read the restore record of the realm: %v. It is ignored. Delete it with %q, and restore from the backup again.", err, record.DeleteCommand(secret))
	case adopter != "" && adopter != record.AdoptedBy(o.realm.UID, ""):
		o.ignored = ignored("Restore record %q was adopted by a deleted Realm with the same name, so it is ignored. To give this realm the keys of the backup, restore it again.", secret.Name)
	}
}

func ignored(format string, args ...any) *condition.Result {
	result := condition.NotReady(v1alpha1.ReasonRestoreRecordIgnored, fmt.Sprintf(format, args...))
	return &result
}

// adopts reports whether the Realm with the given record adopts a restore record now. It does so once
// for each restore record.
func (o *observed) adopts(current *record.Realm) bool {
	return o.restore != nil && o.ignored == nil && (current.Restored == nil || current.Restored.From != o.restore.UID)
}

// merge adds the keys of the restore record to those of the realm.
func (d *decision) merge(seen *observed, keys []signingkey.Key, now time.Time) []signingkey.Key {
	all := seen.restored.Realm.Keys
	needed := slices.DeleteFunc(slices.Clone(all), func(k signingkey.Key) bool { return signingkey.Unneeded(&k, keys, d.policy, now) })
	d.adopts, d.restored = true, restoration(seen, d.restored, now)
	keys, d.restored.OmittedKeys = signingkey.Merge(keys, needed, signingkey.LongestLifetime(all, d.lifetime))
	return keys
}

// restoration returns the restoration for the record of a Realm that adopts a restore record now.
// earlier is its previous restoration, or nil. Tokens that were revoked before stay revoked.
func restoration(seen *observed, earlier *record.Restoration, now time.Time) *record.Restoration {
	r := &record.Restoration{
		From: seen.restore.UID, BackupTime: seen.restored.BackupTime.UTC(), At: now.UTC().Truncate(time.Second),
		TokensValidAfter: seen.restored.Realm.TokensValidAfter.UTC(),
	}
	if earlier != nil && earlier.TokensValidAfter.After(r.TokensValidAfter) {
		r.TokensValidAfter = earlier.TokensValidAfter
	}
	return r
}

// adopt marks the restore record as adopted by the Realm, before the Realm's record contains any of its
// keys. A Realm with the same name that is created later therefore never gets them.
func (r *Reconciler) adopt(ctx context.Context, seen *observed) error {
	adopter := record.AdoptedBy(seen.realm.UID, "")
	if record.Adopter(seen.restore) == adopter {
		return nil
	}
	uid, err := recordstore.CurrentUID(ctx, r.Live, client.ObjectKeyFromObject(seen.realm), &v1alpha1.Realm{})
	if err != nil {
		return err
	}
	if uid != seen.realm.UID {
		return apierrors.NewConflict(corev1.Resource("secrets"), seen.restore.Name, errRecreated)
	}
	seen.restore, err = r.Records.MarkAdopted(ctx, seen.restore, adopter)
	return err
}

var errRecreated = errors.New("the Realm was deleted since it was cached")

// finishRestore deletes the restore record after the Realm's record has been written with its keys.
func (r *Reconciler) finishRestore(ctx context.Context, seen *observed, written *record.Realm) error {
	if seen.restore == nil || written == nil || written.Restored == nil || written.Restored.From != seen.restore.UID {
		return nil
	}
	if err := r.Records.Delete(ctx, seen.restore); err != nil {
		return fmt.Errorf("deleting the restore record of Realm %q: %w", seen.realm.Name, err)
	}
	return nil
}

// adoptedByOther reports whether another Realm than the one with the given UID has adopted a restore
// record. A restore record that no Realm has adopted is not orphaned, because its Realm may be created
// later.
func adoptedByOther(realm types.UID) recordstore.Orphaned {
	return func(secret *corev1.Secret) bool {
		adopter := record.Adopter(secret)
		return adopter != "" && adopter != record.AdoptedBy(realm, "")
	}
}

func (r *Reconciler) newestAdopter(req ctrl.Request) func(context.Context) (recordstore.Orphaned, error) {
	return func(ctx context.Context) (recordstore.Orphaned, error) {
		current, err := recordstore.CurrentUID(ctx, r.Live, req.NamespacedName, &v1alpha1.Realm{})
		return adoptedByOther(current), err
	}
}

// recordedRestoration returns the restoration in the Realm's record; nil if there is none. state is nil
// if the record was not written.
func (d decision) recordedRestoration(state *acknowledgement.State) *record.Restoration {
	if d.adopts && state == nil {
		return nil
	}
	return d.restored
}

// restored returns the Restored condition of a Realm with the given restoration; nil if there is none.
func restored(ignored *condition.Result, r *record.Restoration) *condition.Result {
	switch {
	case ignored != nil:
		return ignored
	case r == nil:
		return nil
	}
	message := fmt.Sprintf("The realm was restored at %s from the backup of %s. The keys of the backup verify tokens until the last token that they signed has expired.",
		timestamp(r.At), timestamp(r.BackupTime))
	if len(r.OmittedKeys) > 0 {
		message += " A realm has a limited number of keys, so these keys of the backup were omitted, and tokens that they signed do not verify: " + strings.Join(r.OmittedKeys, ", ") + "."
	}
	return &condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRestoredFromBackup, Message: message}
}

func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
