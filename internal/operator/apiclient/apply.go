package apiclient

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// applied is what became of a decision.
type applied struct {
	// recorded means that the record is what was decided.
	recorded bool
	// state is how far the token servers are with the record, and version is its; nil where there is none.
	state   *acknowledgement.State
	version string
	// seamless means that they are yet to load the record, and that no workload notices.
	seamless bool
	// refused is why the consumer Secret could not be written; nil where it was, or didn't have to be.
	refused error
}

// apply writes the record, then the consumer Secret.
//
// The record comes first: a secret is never handed out that nobody will accept. A crash
// in between leaves a verifier without its secret, and the next look makes another.
func (r *Reconciler) apply(ctx context.Context, req ctrl.Request, seen observed, d decision) (applied, error) {
	var a applied
	secret := seen.record
	if d.record != nil {
		desired, err := record.ForClient(r.Records.Namespace(), seen.client, *d.record)
		if err != nil {
			return a, err
		}
		if secret, err = r.Records.Put(ctx, seen.record, desired); err != nil {
			return a, fmt.Errorf("writing the record of ApiClient %s: %w", req, err)
		}
		a.recorded = true
		r.unclaimed.put(req.NamespacedName, d.plan.Pending)
	}
	if secret == nil {
		r.Tracker.Forget(acknowledgement.Client, req)
	} else {
		state := r.Tracker.State(acknowledgement.Client, req, secret.ResourceVersion)
		a.state = &state
		a.version = secret.ResourceVersion
		a.seamless = r.isSeamless(req, seen, d, a)
	}
	if d.consumer != nil {
		if _, err := apply.Secret(ctx, r.Client, seen.consumer, d.consumer); err != nil {
			a.refused = err
			return a, fmt.Errorf("writing the consumer Secret of ApiClient %s: %w", req, err)
		}
		if d.plan.Deliver == d.plan.Pending {
			r.unclaimed.put(req.NamespacedName, "")
		}
	}
	return a, r.remove(ctx, req, d.needless)
}

// remove deletes consumer Secrets without need, as they were seen.
func (r *Reconciler) remove(ctx context.Context, req ctrl.Request, needless []corev1.Secret) error {
	for i := range needless {
		secret := &needless[i]
		err := r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing Secret %s, which ApiClient %s needs no more: %w", client.ObjectKeyFromObject(secret), req, err)
		}
		r.Metrics.GarbageCollected(metrics.CredentialsSecret)()
		ctrl.LoggerFrom(ctx).Info("Consumer Secret without need was removed", "secret", secret.Name)
	}
	return nil
}

// isSeamless tells and remembers whether the token servers serve all of the record that
// workloads notice: the record before was acknowledged, or is such a one too, and the change is seamless.
func (r *Reconciler) isSeamless(req ctrl.Request, seen observed, d decision, a applied) bool {
	version := ""
	switch before := seen.record; {
	case *a.state != acknowledgement.Waiting || before == nil:
	case before.ResourceVersion == a.version:
		version = r.seamless.get(req.NamespacedName)
	case d.seamless && (seen.state == acknowledgement.Acknowledged || r.seamless.get(req.NamespacedName) == before.ResourceVersion):
		version = a.version
	}
	r.seamless.put(req.NamespacedName, version)
	return version != "" && version == a.version
}
