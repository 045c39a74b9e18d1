package realm

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// observed is all that a decision stands on, as it was read.
type observed struct {
	realm  *v1alpha1.Realm
	record *corev1.Secret // nil: there is none yet
	// state says how far the token servers are with just this record.
	state acknowledgement.State
}

// Reconcile brings one Realm to what its spec says. Status is written whatever happens.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, err := r.gather(ctx, req)
	if err != nil || seen.realm == nil {
		return ctrl.Result{}, err
	}
	now := r.Now()
	decided, err := decide(seen, r.Instance, now, r.Random)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deciding on Realm %q: %w", req.Name, err)
	}
	state, applyErr := r.apply(ctx, req, seen, decided)
	if apply.IsStale(applyErr) {
		// All that was read is in doubt; it is read again, and nothing is said of it.
		return ctrl.Result{}, applyErr
	}
	r.measure(req.Name, decided, applyErr)
	statusErr := r.writeStatus(ctx, seen.realm, status(seen.realm, decided, state, r.Instance, now))

	result := ctrl.Result{}
	if !decided.next.IsZero() {
		result.RequeueAfter = decided.next.Sub(now)
	}
	return result, errors.Join(applyErr, statusErr)
}

// measure tells of a rotation that was to happen, and when the next one will.
func (r *Reconciler) measure(realm string, d decision, applyErr error) {
	if d.rotates {
		r.Metrics.Rotation(metrics.SigningKey, applyErr)
	}
	r.Metrics.NextKeyRotation(realm, d.nextRotation)
}

// gather reads the Realm and its record, and removes the records of earlier Realms of
// that name. The Realm is nil when it is gone or going.
func (r *Reconciler) gather(ctx context.Context, req ctrl.Request) (observed, error) {
	realm := &v1alpha1.Realm{}
	if err := r.Client.Get(ctx, req.NamespacedName, realm); client.IgnoreNotFound(err) != nil {
		return observed{}, fmt.Errorf("reading Realm %q: %w", req.Name, err)
	}
	gone := realm.UID == "" || !realm.DeletionTimestamp.IsZero()
	uid := realm.UID
	if gone {
		uid = types.UID("")
		r.Tracker.Forget(acknowledgement.Realm, req)
		r.Metrics.ForgetRealm(req.Name)
		r.Events.Forget(req.NamespacedName)
	}
	newest := recordstore.CurrentUID(r.Live, req.NamespacedName, &v1alpha1.Realm{})
	if err := r.Records.DeleteOrphans(ctx, record.KindRealm, req.NamespacedName, uid, newest); err != nil {
		return observed{}, err
	}
	if gone {
		return observed{}, nil
	}
	secret, err := r.Records.Get(ctx, record.KindRealm, uid)
	if err != nil {
		return observed{}, err
	}
	seen := observed{realm: realm, record: secret}
	if secret != nil {
		seen.state = r.Tracker.State(acknowledgement.Realm, req, secret.ResourceVersion)
	}
	return seen, nil
}
