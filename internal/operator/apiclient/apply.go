package apiclient

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// applied is the outcome of writing a decision.
type applied struct {
	// recorded reports whether the desired record has been written.
	recorded bool
	// state reports whether the token servers have acknowledged the client's record and the records of
	// its subjects; nil if there is no record. version is the record's resource version, and created
	// is the time at which it was created.
	state   *acknowledgement.State
	version string
	created time.Time
	// secretsOnly reports whether token servers must still load the record, but workloads do not
	// depend on the change.
	secretsOnly bool
	// writeErr is the error from writing the credentials Secret; nil if the write succeeded or was
	// not needed.
	writeErr error
}

// apply writes the records of subjects, the record, and then the credentials Secret. It then deletes
// what is obsolete.
//
// Token servers ignore a subject until the client's record lists it. apply therefore acquires a
// subject before the record lists it, and gives it up after the record no longer lists it.
//
// The record comes first so that a secret is never delivered before it can be verified. A crash
// between the two writes leaves a verifier without its secret, and the next reconcile generates a
// new secret.
func (r *Reconciler) apply(ctx context.Context, req ctrl.Request, seen observed, d decision) (applied, error) {
	var a applied
	secret := seen.record
	if d.release {
		if err := r.release(ctx, seen); err != nil {
			return a, fmt.Errorf("releasing the client ID of ApiClient %s: %w", req, err)
		}
		secret = nil
	}
	subjects, err := r.holdSubjects(ctx, seen, d.subjects)
	if err != nil {
		return a, fmt.Errorf("writing the subjects of ApiClient %s: %w", req, err)
	}
	if d.record != nil {
		desired, err := record.ForClient(r.Records.Namespace(), *d.record)
		if err != nil {
			return a, err
		}
		if secret, err = r.Records.Put(ctx, seen.record, desired); err != nil {
			return a, fmt.Errorf("writing the record of ApiClient %s: %w", req, err)
		}
		a.recorded = true
		r.pending.put(req.NamespacedName, d.plan.Pending)
	}
	if secret == nil {
		r.Tracker.Forget(acknowledgement.Client, req)
	} else {
		state := r.Tracker.State(acknowledgement.Client, req, later(secret.ResourceVersion, subjects))
		a.state = &state
		a.version, a.created = secret.ResourceVersion, secret.CreationTimestamp.Time
		a.secretsOnly = r.isSecretsOnly(req, seen, d, a)
	}
	if err := r.giveUpSubjects(ctx, req, d.obsoleteSubjects); err != nil {
		return a, err
	}
	if d.credentials != nil {
		if _, err := apply.Secret(ctx, r.Client, r.Live, seen.credentials, d.credentials); err != nil {
			a.writeErr = err
			return a, fmt.Errorf("writing the credentials Secret of ApiClient %s: %w", req, err)
		}
		if d.plan.Deliver == d.plan.Pending {
			r.pending.put(req.NamespacedName, "")
		}
	}
	return a, r.deleteObsolete(ctx, req, d.obsolete)
}

// release deletes the record if the Realm still releases the client according to the API server.
// With the cache alone, a client could lose an ID that it has acquired since.
func (r *Reconciler) release(ctx context.Context, seen observed) error {
	realm := &v1alpha1.Realm{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen.realm), realm); err != nil {
		return fmt.Errorf("reading Realm %q: %w", seen.realm.Name, err)
	}
	if realm.UID != seen.realm.UID || !released(realm, seen.client) {
		return nil
	}
	return r.Records.Delete(ctx, seen.record)
}

// deleteObsolete deletes credentials Secrets, unless they have changed since they were read.
func (r *Reconciler) deleteObsolete(ctx context.Context, req ctrl.Request, obsolete []corev1.Secret) error {
	for i := range obsolete {
		secret := &obsolete[i]
		err := r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the obsolete credentials Secret %s of ApiClient %s: %w", client.ObjectKeyFromObject(secret), req, err)
		}
		r.Metrics.GarbageCollected(metrics.CredentialsSecret)()
		ctrl.LoggerFrom(ctx).Info("Deleted obsolete credentials Secret", "secret", secret.Name)
	}
	return nil
}

// isSecretsOnly reports whether token servers already serve everything in the record that workloads
// depend on. This is the case if the change affects only secrets, and the previous record was
// acknowledged or was itself such a change. isSecretsOnly remembers the record's version for the
// next reconcile.
func (r *Reconciler) isSecretsOnly(req ctrl.Request, seen observed, d decision, a applied) bool {
	version := ""
	switch before := seen.record; {
	case *a.state != acknowledgement.Waiting || before == nil:
	case before.ResourceVersion == a.version:
		version = r.secretsOnly.get(req.NamespacedName)
	case d.secretsOnly && (seen.state == acknowledgement.Acknowledged || r.secretsOnly.get(req.NamespacedName) == before.ResourceVersion):
		version = a.version
	}
	r.secretsOnly.put(req.NamespacedName, version)
	return version != "" && version == a.version
}
