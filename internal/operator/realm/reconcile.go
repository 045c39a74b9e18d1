package realm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

// Reconcile reconciles one Realm. It updates the status even if it fails to write the record.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, err := r.gather(ctx, req)
	if err != nil || seen.realm == nil {
		return ctrl.Result{}, err
	}
	now := r.Now()
	decided, err := decide(seen, r.Instance, now, r.Random)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("generating keys for Realm %q: %w", req.Name, err)
	}
	r.Issuers.Want(req.Name, decided.fetch)
	state, written, applyErr := r.apply(ctx, req, &seen, decided)
	if decided.generate != "" && !written && applyErr == nil {
		// Every other change has been written, so a plugin that doesn't respond delays no restriction. If
		// one was written now, its event triggers the next reconcile.
		if decided, err = r.generate(ctx, seen, decided, now); err != nil {
			return ctrl.Result{}, err
		}
		state, _, applyErr = r.apply(ctx, req, &seen, decided)
	}
	if apply.IsStale(applyErr) {
		// The decision may be based on stale data, so do not report it in the status.
		return ctrl.Result{}, applyErr
	}
	r.measure(req.Name, decided, state, applyErr)
	statusErr := r.writeStatus(ctx, seen.realm, status(seen.realm, decided, state, r.Instance, now))

	result := ctrl.Result{}
	if !decided.next.IsZero() {
		result.RequeueAfter = decided.next.Sub(now)
	}
	if decided.retryAfter > 0 && (result.RequeueAfter == 0 || decided.retryAfter < result.RequeueAfter) {
		result.RequeueAfter = decided.retryAfter
	}
	return result, errors.Join(applyErr, statusErr)
}

// busyDelay is the shortest time after which a realm that found the KMS plugin busy tries again. The time
// is random, because several realms wait for the same place.
const busyDelay = time.Second / 2

// generate lets the KMS plugin encrypt the new key that the realm needs, and decides again with it. If
// the plugin fails, it returns the decision without the key.
func (r *Reconciler) generate(ctx context.Context, seen observed, d decision, now time.Time) (decision, error) {
	key, err := r.Sealing.Generate(ctx, seen.realm.UID, d.generate)
	switch {
	case errors.Is(err, sealing.ErrBusy):
		d.retryAfter = wait.Jitter(busyDelay, 1)
		return d, nil
	case err != nil:
		r.Metrics.Rotation(metrics.SigningKey, err)
		d.encryption.failed, d.retryAfter = true, sealing.Pause
		return d, nil
	}
	seen.generated = &key
	return decide(seen, r.Instance, now, r.Random)
}

// measure counts a rotation, and sets the time of the next one and how keys are stored.
func (r *Reconciler) measure(realm string, d decision, state *acknowledgement.State, applyErr error) {
	if d.rotates {
		r.Metrics.Rotation(metrics.SigningKey, applyErr)
	}
	r.Metrics.NextKeyRotation(realm, d.nextRotation)
	plaintext, encrypted := 0, map[string]int{}
	for _, key := range d.storedKeys(state) {
		switch {
		case key.Sealed() != nil:
			encrypted[key.Sealed().KeyID]++
		case key.InPlaintext():
			plaintext++
		}
	}
	r.Metrics.SigningKeys(realm, plaintext, encrypted)
}
