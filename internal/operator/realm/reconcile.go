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

// Reconcile reconciles one Realm. It decides from the caches first. If they turn out to lag, because the
// record implements a newer Realm or a write conflicts, it decides again from the API server.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, req, false)
	if errors.Is(err, errInconclusive) || apply.IsStale(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("Reconciling with the API server instead of the cache", "reason", err.Error())
		return r.reconcile(ctx, req, true)
	}
	return result, err
}

// errInconclusive means that a decision would be based on an older Realm than the one that its record
// implements. If both were read from the API server, the Realm has changed between the reads.
var errInconclusive = errors.New("the Realm that was read is older than its record")

// reconcile reads, decides, and writes. It updates the status even if it fails to write the record.
func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request, live bool) (ctrl.Result, error) {
	seen, err := r.gather(ctx, req, live)
	if err != nil || seen.realm == nil {
		return ctrl.Result{}, err
	}
	now := r.Now()
	decided, err := r.decide(ctx, &seen, now)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deciding on Realm %q: %w", req.Name, err)
	}
	r.Issuers.Want(req.Name, decided.fetch)
	state, written, applyErr := r.apply(ctx, req, &seen, decided)
	if decided.generate != "" && !written && applyErr == nil {
		// Every other change has been written, so a key that takes long delays no restriction. If one was
		// written now, its event triggers the next reconcile.
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
	desired := status(seen.realm, decided, state, r.Instance, now)
	held := countWait(seen.realm, desired, now)
	var statusErr error
	if held == 0 {
		statusErr = r.writeStatus(ctx, seen.realm, desired)
	}
	return ctrl.Result{RequeueAfter: requeueAfter(&seen, decided, held, now)}, errors.Join(applyErr, statusErr)
}

// confirmDelay is the time after which a step of the keys is tried again that a token server holds up.
const confirmDelay = time.Second

// requeueAfter returns the time until the next change that doesn't trigger a watch event; zero if there is
// none. held is how long the write of the number of clients waits.
func requeueAfter(seen *observed, d decision, held time.Duration, now time.Time) (after time.Duration) {
	consider := func(wait time.Duration) {
		if wait > 0 && (after == 0 || wait < after) {
			after = wait
		}
	}
	if !d.next.IsZero() {
		consider(d.next.Sub(now))
	}
	if !d.nextList.IsZero() {
		consider(d.nextList.Sub(now))
	}
	if seen.unconfirmed {
		consider(confirmDelay)
	}
	consider(d.retryAfter)
	consider(held)
	return after
}

// decide confirms a step that can't be undone of the keys before it decides on it.
func (r *Reconciler) decide(ctx context.Context, seen *observed, now time.Time) (decision, error) {
	d, err := decide(*seen, r.Instance, now, r.Random)
	switch {
	case err != nil:
		return decision{}, err
	case d.inconclusive:
		return decision{}, errInconclusive
	case !d.needsConfirmation:
		return d, nil
	}
	confirmed, err := r.Tracker.Confirm(ctx, served(seen.record))
	if confirmed || err != nil {
		return d, err
	}
	seen.unconfirmed = true
	return decide(*seen, r.Instance, now, r.Random)
}

// busyDelay is the shortest time after which a realm that found the Sealer busy tries again. The time is
// random, because several realms wait for the same place.
const busyDelay = time.Second / 2

// generate gets the new key that the realm needs from the Sealer, and decides again with it. If there is
// none yet, it returns the decision without the key.
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
	return r.decide(ctx, &seen, now)
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
