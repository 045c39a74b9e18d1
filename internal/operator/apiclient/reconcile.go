package apiclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// recheckInterval is the period after which a conflicting or unreadable Secret is read again. Such
// a Secret lacks the label that the operator watches, so the operator receives no events for it.
const recheckInterval = time.Minute

// Reconcile reconciles one ApiClient. It decides from the caches first. If they turn out to lag, because
// the record implements something newer, a write conflicts, or a step must not depend on a cache, it
// decides again from the API server.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	served, err := r.Namespaces.Serves(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !served {
		return r.withdraw(ctx, req)
	}
	result, err := r.reconcile(ctx, req, false)
	if errors.Is(err, errInconclusive) || apply.IsStale(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("Reconciling with the API server instead of the cache", "reason", err.Error())
		return r.reconcile(ctx, req, true)
	}
	return result, err
}

// errInconclusive means that what was read may be older than the client's record or credentials Secret. If
// all of it was read from the API server, it has changed between the reads, and the retry decides.
var errInconclusive = errors.New("the objects that were read may be out of date")

// maxSteps limits the steps of a client's secret in one reconcile. A revocation takes the most: drop the
// verifiers, write a value, and add its verifier. If the value can't be written, another step plans without
// it.
const maxSteps = 4

// reconcile reads, decides, and writes, until no step of the client's secret follows: see package secrets. It
// also decides again when it turns out that the credentials Secret can't be written, because everything else
// must then go on without it. It writes the status even if another write fails.
func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request, live bool) (ctrl.Result, error) {
	seen, err := r.observe(ctx, req, live)
	if err != nil || seen.client == nil {
		return ctrl.Result{RequeueAfter: until(seen.orphanRelease, r.Now())}, err
	}
	var now time.Time
	var decided decision
	var done applied
	var hashErr, applyErr error
	for range maxSteps {
		seen.unconfirmed = false
		now = r.Now() // An overlap begins after the write that replaces the secret.
		if decided, hashErr, err = r.decideConfirmed(ctx, &seen, now); err != nil {
			return ctrl.Result{}, err
		}
		if decided.inconclusive {
			return ctrl.Result{}, errInconclusive
		}
		unwritable := seen.credentialsErr != nil
		if done, applyErr = r.apply(ctx, req, &seen, decided); apply.IsStale(applyErr) {
			return ctrl.Result{}, applyErr // The status must not report a decision that is based on a stale read.
		}
		r.measure(decided.plan.Step, cmp.Or(applyErr, seen.credentialsErr))
		mustReplan := !unwritable && seen.credentialsErr != nil
		if applyErr != nil || !decided.plan.Unfinished && !mustReplan {
			break
		}
	}
	applyErr = errors.Join(applyErr, seen.credentialsErr)
	if wait := firstStatusDelay(seen.client, done, now); wait > 0 && applyErr == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	statusErr := r.writeStatus(ctx, &seen, decided, done, now)
	return ctrl.Result{RequeueAfter: requeueAfter(&seen, decided, now)}, errors.Join(hashErr, applyErr, statusErr)
}

// observe reads what a decision depends on, and deletes the records of deleted objects with the same name. The
// client is nil if it does not exist or is being deleted.
func (r *Reconciler) observe(ctx context.Context, req ctrl.Request, live bool) (observed, error) {
	seen, err := r.gatherRequest(ctx, req, live)
	if err != nil {
		return seen, err
	}
	if seen.own, err = r.Records.OfOwner(req.NamespacedName); err != nil {
		return seen, err
	}
	if err := r.deleteOrphans(ctx, req, &seen); err != nil {
		return seen, err
	}
	if seen.client == nil {
		r.forget(req)
		return seen, nil
	}
	if err := r.gather(ctx, &seen); err != nil {
		return seen, err
	}
	if older := lagging(&seen); len(older) > 0 {
		return seen, fmt.Errorf("%w: record %s implements newer versions of %v", errInconclusive, seen.recordSecret.Name, older)
	}
	if seen.recordMayBeOld() {
		return seen, fmt.Errorf("%w: the status lists a secret that record %s doesn't contain", errInconclusive, seen.recordSecret.Name)
	}
	accepted := accepted(&seen).Status == metav1.ConditionTrue
	seen.ownSubjects = recordstore.OfKind(record.KindSubject, seen.own)
	if err := r.gatherSubjects(ctx, &seen, accepted); err != nil {
		return seen, err
	}
	if err := r.gatherFreeIndex(ctx, &seen, accepted); err != nil {
		return seen, err
	}
	if seen.recordSecret != nil {
		// From here on, the acknowledgement of this version triggers a reconcile, so none is missed.
		seen.acknowledged = r.Tracker.Follow(acknowledgement.Client, req, seen.served(seen.recordSecret.ResourceVersion)...) == acknowledgement.Acknowledged
	}
	return seen, nil
}

// decideConfirmed hashes a provided secret and confirms an irreversible step before it decides on them.
func (r *Reconciler) decideConfirmed(ctx context.Context, seen *observed, now time.Time) (d decision, hashErr, err error) {
	redecide := func() error {
		if d, err = decide(seen, now, r.Random); err != nil {
			return fmt.Errorf("planning the secrets of ApiClient %s: %w", client.ObjectKeyFromObject(seen.client), err)
		}
		return nil
	}
	if err := redecide(); err != nil {
		return d, nil, err
	}
	if d.hash && !d.inconclusive {
		if hashErr = r.hash(ctx, seen); !seen.unhashed {
			if err := redecide(); err != nil {
				return d, nil, err
			}
		}
	}
	if d.plan.Step.NeedsConfirmation() {
		confirmed, err := r.Tracker.Confirm(ctx, seen.served(seen.recordSecret.ResourceVersion)...)
		if err != nil {
			return d, nil, err
		}
		if !confirmed {
			seen.unconfirmed = true // No step is planned that a token server could hold up.
			return d, hashErr, redecide()
		}
	}
	return d, hashErr, nil
}

// measure counts a rotation that has completed or failed.
func (r *Reconciler) measure(step secrets.Step, err error) {
	if step == secrets.StepRetire || err != nil && (step == secrets.StepWriteNext || step == secrets.StepPromote) {
		r.Metrics.Rotation(metrics.ClientSecret, err)
	}
}

// maxFirstStatusDelay limits how long the first status of a client waits for the token servers. They
// usually load a record within a second, so most new clients cost one status write instead of two.
const maxFirstStatusDelay = 5 * time.Second

// firstStatusDelay returns how long to wait before the first status is written; 0 if it is written
// now. Until then, the default of status.observedGeneration reports that the client is not reconciled.
func firstStatusDelay(c *v1beta1.ApiClient, done applied, now time.Time) time.Duration {
	if c.Status.ObservedGeneration > 0 || done.state == nil || *done.state != acknowledgement.Waiting {
		return 0
	}
	return min(done.created.Add(maxFirstStatusDelay).Sub(now), maxFirstStatusDelay)
}

// hashDelay is the shortest time after which a client whose provided secret could not be hashed tries
// again. The time is random, because the clients of a namespace wait for the same place.
const hashDelay = time.Second / 2

// confirmDelay is the time after which an irreversible step is tried again that a token server holds up
// that is starting.
const confirmDelay = time.Second

// requeueAfter returns the time until the next change that doesn't trigger a watch event; zero if
// there is none. The decision may lack a change whose time has come since the reads. The client is then
// reconciled again immediately.
func requeueAfter(seen *observed, d decision, now time.Time) time.Duration {
	if d.hash {
		return wait.Jitter(hashDelay, 1)
	}
	if seen.unconfirmed {
		return confirmDelay
	}
	switch d.accepted.Reason {
	case v1beta1.ReasonSecretConflict, v1beta1.ReasonSecretNotFound, v1beta1.ReasonSecretNotLabeled:
		return recheckInterval
	}
	var next time.Time
	times := slices.Concat(transitionTimes(seen.client, d), seen.releaseTimes(), []time.Time{nextIndexChange(seen, d.index), seen.orphanRelease})
	for _, at := range times {
		if seen.at.Before(at) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return until(next, now)
}

// until returns the time until a time; zero if it is zero.
func until(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(time.Nanosecond, at.Sub(now))
}

// transitionTimes returns the times at which the client's state changes without a watch event.
func transitionTimes(c *v1beta1.ApiClient, d decision) []time.Time {
	at := []time.Time{d.plan.NextRotation, d.check}
	if c.Spec.ExpirationTime != nil {
		at = append(at, c.Spec.ExpirationTime.Time)
	}
	if d.desired != nil {
		for _, s := range d.desired.Secrets {
			at = append(at, s.ExpiresAt)
		}
		if d.desired.Restored != nil {
			for _, s := range d.desired.Restored.Secrets {
				at = append(at, s.ExpiresAt)
			}
		}
	}
	return at
}
