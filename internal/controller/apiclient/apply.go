package apiclient

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/apply"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// apply writes the record, then the consumer Secret, and returns how far the token
// servers are with the record; nil when that can't be said, because there is none or it could not be written.
//
// The record comes first: a secret is never handed out that nobody will accept. A crash
// in between leaves a verifier without its secret, and the next look makes another.
func (r *Reconciler) apply(ctx context.Context, req ctrl.Request, seen observed, d decision) (*acknowledgement.State, error) {
	secret := seen.record
	if d.record != nil {
		desired, err := record.ForClient(r.Records.Namespace(), seen.client, *d.record)
		if err != nil {
			return nil, err
		}
		if secret, err = r.Records.Put(ctx, seen.record, desired); err != nil {
			return nil, fmt.Errorf("writing the record of ApiClient %s: %w", req, err)
		}
	}
	if d.consumer != nil {
		if _, err := apply.Secret(ctx, r.Client, seen.consumer, d.consumer); err != nil {
			return nil, fmt.Errorf("writing the consumer Secret of ApiClient %s: %w", req, err)
		}
	}
	if secret == nil {
		r.Tracker.Forget(acknowledgement.Client, req)
		return nil, nil //nolint:nilnil // Without a record there is no state.
	}
	state := r.Tracker.State(acknowledgement.Client, req, secret.ResourceVersion)
	return &state, nil
}
