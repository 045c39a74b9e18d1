package apiclient

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/record"
)

// withdraw disables the records of an ApiClient in a namespace that the operator doesn't serve,
// because it wouldn't see that the ApiClient is suspended or deleted. The records keep its secrets and
// subjects, in case the namespace is served again. If the namespace was deleted, so are the records.
func (r *Reconciler) withdraw(ctx context.Context, req ctrl.Request) error {
	r.forget(req)
	records, err := r.Records.OfOwner(ctx, record.KindClient, req.NamespacedName)
	if err != nil {
		return err
	}
	subjects, err := r.Records.OfOwner(ctx, record.KindSubject, req.NamespacedName)
	if err != nil || len(records)+len(subjects) == 0 {
		return err
	}
	gone, err := r.Namespaces.Gone(ctx, req.Namespace)
	if err != nil {
		return err
	}
	for i := range records {
		if gone {
			err = r.Records.Delete(ctx, &records[i])
		} else {
			err = r.disable(ctx, &records[i])
		}
		if err != nil {
			return fmt.Errorf("withdrawing the record of ApiClient %s, whose namespace is not served: %w", req, err)
		}
	}
	if !gone {
		return nil
	}
	for i := range subjects {
		if err := r.Records.Delete(ctx, &subjects[i]); err != nil {
			return fmt.Errorf("withdrawing a subject of ApiClient %s, whose namespace is not served: %w", req, err)
		}
	}
	return nil
}

// disable makes token servers reject the client of a record. They report an unreadable record.
func (r *Reconciler) disable(ctx context.Context, secret *corev1.Secret) error {
	body, err := record.ReadClient(secret)
	if err != nil || body.Disabled {
		return nil //nolint:nilerr // see above
	}
	body.Disabled = true
	desired, err := record.ForClient(r.Records.Namespace(), body)
	if err != nil {
		return err
	}
	_, err = r.Records.Put(ctx, secret, desired)
	return err
}
