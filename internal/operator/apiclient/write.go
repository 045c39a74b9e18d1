package apiclient

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// applied is the outcome of writing a decision.
type applied struct {
	// written reports whether the desired record has been written.
	written bool
	// delivered reports whether the credentials Secret is as desired.
	delivered bool
	// state reports whether the token servers have acknowledged what workloads depend on in the client's
	// record and the records of its subjects; nil if there is no record.
	state *acknowledgement.State
	// created is the time at which the record was created.
	created time.Time
}

// apply writes the records of subjects, the record, and the credentials Secret, and stores the written
// objects in seen. It then deletes what is obsolete. apply stores an error from writing the credentials
// Secret in seen instead of returning it, because this error must not hold back anything else.
//
// Token servers ignore a subject until the client's record lists it. apply therefore acquires a
// subject before the record lists it, and gives it up after the record no longer lists it.
//
// The record comes first, so that a restriction never waits for the Secret. Only for a new client, the Secret
// comes first. A value is always in the Secret one step before its verifier is in the record.
func (r *Reconciler) apply(ctx context.Context, req ctrl.Request, seen *observed, d decision) (applied, error) {
	var a applied
	if d.release {
		if err := r.Records.Delete(ctx, seen.recordSecret); err != nil {
			return a, fmt.Errorf("releasing the client ID of ApiClient %s: %w", req, err)
		}
		seen.setRecord(nil)
	}
	secretFirst := seen.recordSecret == nil && d.credentials != nil && d.plan.Step == secrets.StepWriteFirst
	if d.desired != nil && !secretFirst {
		if err := r.putRecord(ctx, seen, d); err != nil {
			return a, fmt.Errorf("writing the record of ApiClient %s: %w", req, err)
		}
		a.written = true
	}
	if err := r.retireIndexes(ctx, seen); err != nil {
		return a, err
	}
	if err := r.giveUpSubjects(ctx, req, seen, d.obsoleteSubjects); err != nil {
		return a, err
	}
	if seen.credentialsErr = r.putCredentials(ctx, seen, d); apply.IsStale(seen.credentialsErr) {
		return a, fmt.Errorf("writing the credentials Secret of ApiClient %s: %w", req, seen.credentialsErr)
	}
	a.delivered = d.credentials != nil && seen.credentialsErr == nil
	r.follow(req, seen, &a)
	return a, r.deleteObsolete(ctx, req, d.obsolete)
}

// putRecord writes the records of subjects and then the client's record.
func (r *Reconciler) putRecord(ctx context.Context, seen *observed, d decision) error {
	if err := r.holdSubjects(ctx, seen, d.subjects); err != nil {
		return fmt.Errorf("writing the subjects: %w", err)
	}
	if err := r.putIndex(ctx, seen, d.index.Create); err != nil {
		return err
	}
	desired, err := recordsecret.ForClient(r.Records.Namespace(), *d.desired)
	if err != nil {
		return err
	}
	secret, err := r.Records.Put(ctx, seen.recordSecret, desired)
	if err != nil {
		return err
	}
	seen.acknowledged = seen.acknowledged && secret.ResourceVersion == seen.recordSecret.ResourceVersion
	seen.recordSecret, seen.recorded = secret, *d.desired
	seen.index.Current, seen.index.Serial = d.desired.StatusIndex, d.desired.IndexSerial
	return nil
}

// holdSubjects writes the records of the client's subjects. The API server creates only one record for a
// subject, so another client that was faster keeps it.
func (r *Reconciler) holdSubjects(ctx context.Context, seen *observed, wanted []record.Subject) error {
	for _, body := range wanted {
		desired, err := recordsecret.ForSubject(r.Records.Namespace(), body)
		if err != nil {
			return err
		}
		key := subject{body.IssuerName, body.Issuer, body.Subject}
		secret, err := r.Records.Put(ctx, seen.subjects[key], desired)
		if err != nil {
			return err
		}
		if seen.subjects == nil {
			seen.subjects = map[subject]*corev1.Secret{}
		}
		seen.subjects[key] = secret
	}
	return nil
}

// putCredentials writes the credentials Secret, unless that has failed in this reconcile.
func (r *Reconciler) putCredentials(ctx context.Context, seen *observed, d decision) error {
	if d.credentials == nil || seen.credentialsErr != nil {
		return seen.credentialsErr
	}
	secret, err := apply.Secret(ctx, r.Client, seen.credentials, d.credentials)
	if err == nil {
		seen.credentials = secret
	}
	return err
}

// follow asks which token servers serve the record, and requests a reconcile when that changes.
// Token servers load records in order, so a server that serves the record also serves its content.
func (r *Reconciler) follow(req ctrl.Request, seen *observed, a *applied) {
	if seen.recordSecret == nil {
		r.Tracker.Forget(acknowledgement.Client, req)
		return
	}
	// The state of the version itself is what a change triggers a reconcile for, because steps depend on it.
	state := r.Tracker.Follow(acknowledgement.Client, req, seen.served(seen.recordSecret.ResourceVersion)...)
	if content := seen.recorded.Basis.Content; content != "" {
		state = r.Tracker.State(seen.served(content)...)
	}
	a.state, a.created = &state, seen.recordSecret.CreationTimestamp.Time
}

// giveUpSubjects deletes the records of subjects that the client does not keep according to the API
// server, either. With the cache alone, it could lose a subject that it lists again. A decision to release
// subjects was made from live reads.
func (r *Reconciler) giveUpSubjects(ctx context.Context, req ctrl.Request, seen *observed, obsolete []*corev1.Secret) error {
	if len(obsolete) == 0 {
		return nil
	}
	c, realm := &v1beta1.ApiClient{}, &v1beta1.Realm{}
	uid, err := recordstore.CurrentUID(ctx, r.Live, req.NamespacedName, c)
	if err != nil || uid == "" {
		return err // The records of deleted objects are orphans.
	}
	realmUID, err := recordstore.CurrentUID(ctx, r.Live, client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm)
	if err != nil || realmUID == "" {
		return err
	}
	for _, secret := range obsolete {
		if !heldUntil(secret, seen.releasedUntil()) && keepsSubject(realm, c, secret) {
			continue
		}
		if err := r.Records.Delete(ctx, secret); err != nil {
			return fmt.Errorf("giving up a subject of ApiClient %s: %w", req, err)
		}
	}
	return nil
}

// deleteObsolete deletes credentials Secrets, unless they have changed since they were read.
func (r *Reconciler) deleteObsolete(ctx context.Context, req ctrl.Request, obsolete []corev1.Secret) error {
	for i := range obsolete {
		secret := &obsolete[i]
		err := r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
		if apierrors.IsNotFound(err) {
			continue // It was deleted by an earlier step of this reconcile.
		}
		if err != nil {
			return fmt.Errorf("deleting the obsolete credentials Secret %s of ApiClient %s: %w", client.ObjectKeyFromObject(secret), req, err)
		}
		r.Metrics.GarbageCollected(metrics.CredentialsSecret)()
		ctrl.LoggerFrom(ctx).Info("Deleted obsolete credentials Secret", "secret", secret.Name)
	}
	return nil
}

// measure counts a rotation that has completed or failed.
func (r *Reconciler) measure(step secrets.Step, err error) {
	if step == secrets.StepRetire || err != nil && (step == secrets.StepWriteNext || step == secrets.StepPromote) {
		r.Metrics.Rotation(metrics.ClientSecret, err)
	}
}

// putIndex creates the record of the client's new index.
func (r *Reconciler) putIndex(ctx context.Context, seen *observed, index *record.Index) error {
	if index == nil {
		return nil
	}
	body := *index
	body.UID, body.Namespace, body.Name, body.RealmUID = seen.client.UID, seen.client.Namespace, seen.client.Name, seen.realm.UID
	desired, err := recordsecret.ForIndex(r.Records.Namespace(), body)
	if err != nil {
		return err
	}
	secret, err := r.Records.Put(ctx, nil, desired)
	if err != nil {
		return fmt.Errorf("acquiring index %d: %w", body.Index, err)
	}
	seen.hold(secret)
	return nil
}

// retireIndexes retires and releases the indexes that the client's record doesn't have any longer.
func (r *Reconciler) retireIndexes(ctx context.Context, seen *observed) error {
	// The record that was just written may have made indexes obsolete. Another step of this reconcile must not
	// release them.
	if err := r.gatherHold(ctx, seen); err != nil {
		return err
	}
	retire, release, _ := statusindex.Obsolete(seen.index, seen.at)
	for _, index := range retire {
		secret, err := r.retireIndex(ctx, seen.records[index.Index], index)
		if err != nil {
			return err
		}
		seen.drop(index.Index)
		seen.hold(secret)
	}
	for _, index := range release {
		if err := r.Records.Delete(ctx, seen.records[index.Index]); err != nil {
			return fmt.Errorf("releasing index %d: %w", index.Index, err)
		}
		seen.drop(index.Index)
	}
	return nil
}

func (r *Reconciler) retireIndex(ctx context.Context, secret *corev1.Secret, body record.Index) (*corev1.Secret, error) {
	body.RetiredAt = r.Now().UTC()
	desired, err := recordsecret.ForIndex(r.Records.Namespace(), body)
	if err != nil {
		return nil, err
	}
	if secret, err = r.Records.Put(ctx, secret, desired); err != nil {
		return nil, fmt.Errorf("retiring index %d: %w", body.Index, err)
	}
	return secret, nil
}
