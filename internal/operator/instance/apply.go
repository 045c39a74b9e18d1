package instance

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	v1beta1ac "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// create creates the Instance. If another operator has just created it, nothing changes.
func (r *Reconciler) create(ctx context.Context) error {
	desired := v1beta1ac.Instance(v1beta1.InstanceName).WithLabels(map[string]string{v1beta1.ManagedByLabel: v1beta1.ManagedBy})
	if err := apply.Object(ctx, r.Client, (*v1beta1.Instance)(nil), desired); err != nil {
		return fmt.Errorf("creating the Instance: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Created the Instance")
	return nil
}

// writeStatus applies the status and records Events for the change. It fails with a conflict if instance is
// not the latest version.
func (r *Reconciler) writeStatus(ctx context.Context, instance *v1beta1.Instance, s v1beta1.InstanceStatus) error {
	desired, err := apply.Convert[v1beta1ac.InstanceStatusApplyConfiguration](s)
	if err != nil {
		return err
	}
	if err := apply.Status(ctx, r.Client, v1beta1ac.Instance(instance.Name).WithResourceVersion(instance.ResourceVersion).WithStatus(desired)); err != nil {
		return err
	}
	r.Events.Record(instance, instance.Status.Conditions, s.Conditions)
	return nil
}
