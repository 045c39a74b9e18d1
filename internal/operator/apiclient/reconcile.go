package apiclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// unseenInterval is how often a Secret that is in the way, or that may not be read, is looked
// at again: it carries no label of ours, so no watch tells when it comes or goes.
const unseenInterval = time.Minute

// Reconcile brings one ApiClient to what its spec says. Status is written whatever happens.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, err := r.gather(ctx, req)
	if err != nil || seen.client == nil {
		return ctrl.Result{}, err
	}
	now := r.Now()
	decided, err := r.decide(seen, now)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deciding on ApiClient %s: %w", req, err)
	}
	done, applyErr := r.apply(ctx, req, seen, decided)
	if apply.IsStale(applyErr) {
		// All that was read is in doubt; it is read again, and nothing is said of it.
		return ctrl.Result{}, applyErr
	}
	r.measure(decided.plan.Step, applyErr)
	statusErr := r.writeStatus(ctx, seen.client, status(seen, decided, done, r.Instance, now))
	return ctrl.Result{RequeueAfter: nextLook(seen.client, decided, now)}, errors.Join(applyErr, statusErr)
}

func (r *Reconciler) decide(seen observed, now time.Time) (decision, error) {
	if mayHashSlowly(&seen) {
		r.hashing.Lock()
		defer r.hashing.Unlock()
	}
	return decide(seen, r.Instance, now, r.Random)
}

var errForgotten = errors.New("the new secret was lost before it was handed out")

// measure tells of a rotation that has come to its end, or begins again.
func (r *Reconciler) measure(step secrets.Step, applyErr error) {
	switch {
	case step == secrets.StepLost:
		r.Metrics.Rotation(metrics.ClientSecret, errForgotten)
	case step == secrets.StepCompleted, step == secrets.StepBegun && applyErr != nil:
		r.Metrics.Rotation(metrics.ClientSecret, applyErr)
	}
}

// nextLook returns in what time something changes that no watch tells; zero for never.
func nextLook(c *v1alpha1.ApiClient, d decision, now time.Time) time.Duration {
	switch d.accepted.Reason {
	case v1alpha1.ReasonSecretConflict, v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonSecretNotLabelled:
		return unseenInterval
	}
	var next time.Time
	for _, at := range moments(c, d) {
		if now.Before(at) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(now)
}

// moments are the times at which something about the client changes.
func moments(c *v1alpha1.ApiClient, d decision) []time.Time {
	at := []time.Time{d.plan.Next}
	if c.Spec.ExpiresAt != nil {
		at = append(at, c.Spec.ExpiresAt.Time)
	}
	if d.record != nil {
		for _, s := range d.record.Secrets {
			at = append(at, s.ExpiresAt)
		}
	}
	return at
}
