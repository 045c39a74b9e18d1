package apiclient

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// write performs the writes of a decision in their order, and stores the written objects in seen. Each is conditional
// on what the decision is based on.
func (r *Reconciler) write(ctx context.Context, seen *observed, d *decision) error {
	var failed error
	for _, w := range d.writes {
		err := r.perform(ctx, seen, w)
		if _, isCredentials := w.(putCredentials); isCredentials && err != nil && !apply.IsStale(err) {
			seen.credentialsErr = err
			continue
		}
		if err != nil {
			failed = fmt.Errorf("%s of ApiClient %s: %w", w, client.ObjectKeyFromObject(seen.client), err)
			break
		}
		d.written = append(d.written, w)
	}
	if !apply.IsStale(failed) {
		r.countRotation(d.plan.Step, cmp.Or(failed, seen.credentialsErr))
	}
	return failed
}

func (r *Reconciler) perform(ctx context.Context, seen *observed, w write) error {
	switch w := w.(type) {
	case releaseClientID:
		err := r.Records.Delete(ctx, seen.recordSecret)
		if err == nil {
			seen.setRecord(nil)
		}
		return err
	case holdSubject:
		return r.holdSubject(ctx, seen, w.body)
	case giveUpSubject:
		seen.subjectsOfName = slices.DeleteFunc(slices.Clone(seen.subjectsOfName), func(s *corev1.Secret) bool { return s == w.secret })
		return r.Records.Delete(ctx, w.secret)
	case holdIndex:
		body := w.body
		body.UID, body.Namespace, body.Name, body.RealmUID = seen.client.UID, seen.client.Namespace, seen.client.Name, seen.realm.UID
		return r.putIndex(ctx, seen, nil, body) // A lagging cache can offer an index that the client holds.
	case retireIndex:
		body := w.body
		body.RetiredAt = r.Now().UTC() // not before the record without it was written
		return r.putIndex(ctx, seen, seen.records[body.Index], body)
	case releaseIndex:
		err := r.Records.Delete(ctx, seen.records[w.index])
		if err == nil {
			seen.drop(w.index)
		}
		return err
	case putRecord:
		return r.putRecord(ctx, seen, w.body)
	case putCredentials:
		secret, err := apply.Secret(ctx, r.Client, seen.credentials, w.desired)
		if err == nil {
			seen.credentials = secret
		}
		return err
	case deleteCredentials:
		return r.deleteCredentials(ctx, w.secret)
	}
	return nil
}

func (r *Reconciler) putRecord(ctx context.Context, seen *observed, body *record.Client) error {
	desired, err := recordsecret.ForClient(r.Records.Namespace(), *body)
	if err != nil {
		return err
	}
	secret, err := r.Records.Put(ctx, seen.recordSecret, desired)
	if err != nil {
		return err
	}
	seen.recordSecret, seen.recorded = secret, *body
	seen.index.Current, seen.index.Serial = body.StatusIndex, body.IndexSerial
	return nil
}

func (r *Reconciler) holdSubject(ctx context.Context, seen *observed, body record.Subject) error {
	desired, err := recordsecret.ForSubject(r.Records.Namespace(), body)
	if err != nil {
		return err
	}
	key := subject{body.IssuerName, body.Issuer, body.Subject}
	secret, err := r.Records.Put(ctx, seen.subjects[key], desired)
	if err == nil {
		put(&seen.subjects, key, secret)
	}
	return err
}

func (r *Reconciler) putIndex(ctx context.Context, seen *observed, known *corev1.Secret, body record.Index) error {
	desired, err := recordsecret.ForIndex(r.Records.Namespace(), body)
	if err != nil {
		return err
	}
	secret, err := r.Records.Put(ctx, known, desired)
	if err == nil {
		seen.drop(body.Index)
		seen.hold(secret)
	}
	return err
}

func (r *Reconciler) deleteCredentials(ctx context.Context, secret *corev1.Secret) error {
	err := r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if apierrors.IsNotFound(err) {
		return nil // It was deleted by an earlier step of this reconcile.
	}
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Deleted obsolete credentials Secret", "secret", secret.Name)
	}
	return err
}

// countRotation counts a rotation that has completed or failed.
func (r *Reconciler) countRotation(step secrets.Step, err error) {
	if step == secrets.StepRetire || err != nil && (step == secrets.StepWriteNext || step == secrets.StepPromote) {
		r.Metrics.Rotation(metrics.ClientSecret, err)
	}
}
