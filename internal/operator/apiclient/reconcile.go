package apiclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// recheckInterval is the period after which a conflicting or unreadable Secret is read again. Such
// a Secret lacks the label that the operator watches, so the operator receives no events for it.
const recheckInterval = time.Minute

// Reconcile reconciles one ApiClient. It writes the status even if another write fails.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	served, err := r.Namespaces.Serves(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !served {
		return ctrl.Result{}, r.withdraw(ctx, req)
	}
	seen, err := r.gather(ctx, req)
	if err != nil || seen.client == nil {
		return ctrl.Result{}, err
	}
	now := r.Now()
	decided, err := decide(seen, r.Instance, now, r.Random)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("planning the secrets of ApiClient %s: %w", req, err)
	}
	var hashErr error
	if decided.hash {
		if hashErr = r.hash(ctx, &seen); !seen.hashing {
			if decided, err = decide(seen, r.Instance, now, r.Random); err != nil {
				return ctrl.Result{}, fmt.Errorf("planning the secrets of ApiClient %s: %w", req, err)
			}
		}
	}
	done, applyErr := r.apply(ctx, req, seen, decided)
	if apply.IsStale(applyErr) {
		// The decision is based on a stale read, so it must not appear in the status.
		r.conflicts.put(req.NamespacedName, string(seen.client.UID))
		return ctrl.Result{}, applyErr
	}
	r.conflicts.put(req.NamespacedName, "")
	r.measure(decided.plan.Step, applyErr)
	if wait := firstStatusDelay(seen.client, done, now); wait > 0 && applyErr == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	statusErr := r.writeStatus(ctx, seen, decided, done, now)
	return ctrl.Result{RequeueAfter: requeueAfter(seen.client, decided, now)}, errors.Join(hashErr, applyErr, statusErr)
}

// maxFirstStatusDelay limits how long the first status of a client waits for the token servers. They
// usually load a record within a second, so most new clients cost one status write instead of two.
const maxFirstStatusDelay = 5 * time.Second

// firstStatusDelay returns how long to wait before the first status is written; 0 if it is written
// now. Until then, the default of status.observedGeneration reports that the client is not reconciled.
func firstStatusDelay(c *v1alpha1.ApiClient, done applied, now time.Time) time.Duration {
	if c.Status.ObservedGeneration > 0 || done.state == nil || *done.state != acknowledgement.Waiting {
		return 0
	}
	return min(done.created.Add(maxFirstStatusDelay).Sub(now), maxFirstStatusDelay)
}

var errLost = errors.New("new client secret lost before delivery")

// measure counts a rotation that has completed or failed.
func (r *Reconciler) measure(step secrets.Step, applyErr error) {
	switch {
	case step == secrets.StepLost:
		r.Metrics.Rotation(metrics.ClientSecret, errLost)
	case step == secrets.StepCompleted, step == secrets.StepBegun && applyErr != nil:
		r.Metrics.Rotation(metrics.ClientSecret, applyErr)
	}
}

// hashDelay is the shortest time after which a client whose provided secret could not be hashed tries
// again. The time is random, because the clients of a namespace wait for the same place.
const hashDelay = time.Second / 2

// requeueAfter returns the time until the next change that doesn't trigger a watch event; zero if
// there is none.
func requeueAfter(c *v1alpha1.ApiClient, d decision, now time.Time) time.Duration {
	if d.hash {
		return wait.Jitter(hashDelay, 1)
	}
	switch d.accepted.Reason {
	case v1alpha1.ReasonSecretConflict, v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonSecretNotLabelled:
		return recheckInterval
	}
	var next time.Time
	for _, at := range transitionTimes(c, d) {
		if now.Before(at) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(now)
}

// transitionTimes returns the times at which the client's state changes without a watch event.
func transitionTimes(c *v1alpha1.ApiClient, d decision) []time.Time {
	at := []time.Time{d.plan.Next, d.check}
	if c.Spec.ExpiresAt != nil {
		at = append(at, c.Spec.ExpiresAt.Time)
	}
	if d.record != nil {
		for _, s := range d.record.Secrets {
			at = append(at, s.ExpiresAt)
		}
		if d.record.Restored != nil {
			for _, s := range d.record.Restored.Secrets {
				at = append(at, s.ExpiresAt)
			}
		}
	}
	return at
}
