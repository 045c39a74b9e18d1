package apiclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// restore is the restore record for a client ID.
type restore struct {
	secret *corev1.Secret // nil if there is none
	body   record.Restore
	// ignored is the reason why the client cannot adopt the record; nil if it can.
	ignored *condition.Result
}

// gatherRestore reads the restore record for the client's ID. The cache may lack a new record. If the
// client is new and a restore is in progress, or if the client would lose secrets, gatherRestore asks
// the API server. A client that misses its restore record adopts it later.
func (r *Reconciler) gatherRestore(ctx context.Context, seen *observed) error {
	if seen.realm == nil || seen.holder.Name != "" {
		return nil
	}
	name := record.ClientRestoreName(seen.realm.Name, seen.client.EffectiveClientID())
	secret, err := r.Records.Cached(ctx, name)
	if err != nil {
		return err
	}
	if secret == nil {
		expected := seen.current.Restored != nil && len(seen.current.Restored.Secrets) > 0
		if seen.record == nil {
			if expected, err = r.Records.Restoring(ctx); err != nil {
				return err
			}
		}
		if expected {
			if secret, err = r.Records.Get(ctx, name); err != nil {
				return err
			}
		}
	}
	seen.readRestore(secret)
	return nil
}

// readRestore decodes the restore record for the client's ID. The Secret may be nil.
func (o *observed) readRestore(secret *corev1.Secret) {
	o.restore = restore{secret: secret}
	if secret == nil {
		return
	}
	body, err := record.ReadRestore(secret)
	o.restore.body = body
	adopter := record.Adopter(secret)
	switch {
	case err != nil:
		o.restore.ignored = notReady(v1alpha1.ReasonRestoreRecordIgnored,
			"The operator cannot read the restore record of the client: %v. It is ignored. Delete it with %q, and restore from the backup again.", err, record.DeleteCommand(secret))
	case body.Client.Namespace != o.client.Namespace || body.Client.Name != o.client.Name:
		o.restore.ignored = notReady(v1alpha1.ReasonRestoreRecordIgnored,
			"Restore record %q for client ID %q belongs to another ApiClient, so it is ignored. If that ApiClient does not return, delete the restore record with %q.",
			secret.Name, o.client.EffectiveClientID(), record.DeleteCommand(secret))
	case adopter != "" && adopter != o.adopter():
		o.restore.ignored = notReady(v1alpha1.ReasonRestoreRecordIgnored,
			"Restore record %q was adopted by a deleted ApiClient or Realm with the same name, so it is ignored. To give this client the identity and secrets of the backup, restore it again.", secret.Name)
	}
}

// adopter returns the value that marks a restore record as adopted by the client.
func (o *observed) adopter() string { return record.AdoptedBy(o.realm.UID, o.client.UID) }

// adopts reports whether the client adopts a restore record now. It does so once for each record.
func (o *observed) adopts() bool {
	return o.restore.secret != nil && o.restore.ignored == nil &&
		(o.current.Restored == nil || o.current.Restored.From != o.restore.secret.UID)
}

// restoredSecrets returns the secrets of the backup that the client may accept.
func (o *observed) restoredSecrets() []record.ClientSecret {
	switch current := o.current.Restored; {
	case o.adopts():
		return o.restore.body.Client.Secrets
	case current == nil || o.restore.secret == nil || o.restore.secret.UID != current.From:
		return nil // the restore is finished
	case o.revokedSinceRestore():
		return nil
	default:
		return current.Secrets
	}
}

// revokedSinceRestore reports whether a user has revoked the client's tokens since the restore, which
// also ends the secrets of the backup. Only the spec decides: a missing credentials Secret may have been
// revoked or lost, and the operator may see its deletion before or after the change of the spec.
func (o *observed) revokedSinceRestore() bool {
	current, after := o.current.Restored, o.client.Spec.TokensValidAfter
	return current != nil && after != nil && !after.Time.Before(current.At) && after.After(current.TokensValidAfter)
}

// restoration returns the restoration for the client's record with the given secrets; nil if the client
// was not restored. A restored client keeps it, because its identity is not its UID.
func restoration(seen *observed, secrets []record.ClientSecret, now time.Time) *record.Restoration {
	before := seen.current.Restored
	if seen.adopts() {
		after := seen.restore.body.Client.TokensValidAfter.UTC()
		if before != nil {
			after = latest(after, before.TokensValidAfter)
		}
		return &record.Restoration{
			From: seen.restore.secret.UID, BackupTime: seen.restore.body.BackupTime.UTC(), At: now.UTC().Truncate(time.Second),
			TokensValidAfter: after, Secrets: secrets,
		}
	}
	if before == nil {
		return nil
	}
	kept := *before
	kept.Secrets = secrets
	return &kept
}

// identity returns the client's identity in tokens. A client that was restored keeps that of the first
// restore record, because tokens with another identity are not its own.
func identity(seen *observed) types.UID {
	own := seen.client.UID
	if seen.record != nil {
		own = seen.current.Identity
	}
	if own == seen.client.UID && seen.adopts() {
		return seen.restore.body.Client.Identity
	}
	return own
}

// prepareRestore makes the writes that must precede the client's record: it marks the adopted restore
// record, and takes over the credentials Secret of the backup.
func (r *Reconciler) prepareRestore(ctx context.Context, seen *observed, d decision) error {
	if d.record == nil {
		return nil
	}
	if d.adopts {
		if err := r.adopt(ctx, seen); err != nil {
			return fmt.Errorf("adopting the restore record of ApiClient %s: %w", client.ObjectKeyFromObject(seen.client), err)
		}
	}
	return r.takeOver(ctx, seen)
}

// adopt marks the restore record as adopted by the client, before the client's record contains any part
// of it. A client with the same name that is created later therefore never gets it. adopt asks the API
// server whether the client and its Realm still exist, because the cache may be stale.
func (r *Reconciler) adopt(ctx context.Context, seen *observed) error {
	if record.Adopter(seen.restore.secret) == seen.adopter() {
		return nil
	}
	uid, err := recordstore.CurrentUID(ctx, r.Live, client.ObjectKeyFromObject(seen.client), &v1alpha1.ApiClient{})
	if err != nil {
		return err
	}
	realmUID, err := recordstore.CurrentUID(ctx, r.Live, client.ObjectKeyFromObject(seen.realm), &v1alpha1.Realm{})
	if err != nil {
		return err
	}
	if uid != seen.client.UID || realmUID != seen.realm.UID {
		return apierrors.NewConflict(corev1.Resource("secrets"), seen.restore.secret.Name, errRecreated)
	}
	seen.restore.secret, err = r.Records.MarkAdopted(ctx, seen.restore.secret, seen.adopter())
	return err
}

var errRecreated = errors.New("the ApiClient or its Realm was deleted since it was cached")

// finishRestore deletes an adopted restore record if none of its secrets is accepted in addition to the
// client's own. The client's record already contains everything else.
func (r *Reconciler) finishRestore(ctx context.Context, seen *observed, d decision) error {
	if seen.restore.secret == nil || d.record == nil || d.record.Restored == nil ||
		d.record.Restored.From != seen.restore.secret.UID || len(d.record.Restored.Secrets) > 0 {
		return nil
	}
	return r.Records.Delete(ctx, seen.restore.secret)
}

// recordedRestoration returns the restoration in the client's record; nil if there is none.
func recordedRestoration(seen observed, d decision, done applied) *record.Restoration {
	switch {
	case d.release:
		return nil
	case d.record != nil && done.recorded:
		return d.record.Restored
	}
	return seen.current.Restored
}

// restored returns the Restored condition of a client whose record contains the given restoration; nil
// if there is none.
func restored(seen *observed, r *record.Restoration) *condition.Result {
	switch {
	case seen.restore.ignored != nil:
		return seen.restore.ignored
	case r == nil:
		return nil
	}
	message := fmt.Sprintf("The client was restored at %s from the backup of %s.", timestamp(r.At), timestamp(r.BackupTime))
	if len(r.Secrets) > 0 {
		var ids []string
		for _, s := range r.Secrets {
			ids = append(ids, s.ID)
		}
		message += fmt.Sprintf(" In addition to the client's own secrets, it accepts %d of the backup: %s. When workloads no longer use them, run \"kubectl realmkeeper restore --finish\". To reject them now, revoke the client's tokens: \"kubectl realmkeeper revoke apiclient/%s -n %s\".",
			len(r.Secrets), enumerate(ids), seen.client.Name, seen.client.Namespace)
	}
	return &condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRestoredFromBackup, Message: message}
}
