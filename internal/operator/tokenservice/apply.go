package tokenservice

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

// apply writes changed objects in dependency order. The Deployment comes last.
func (r *Reconciler) apply(ctx context.Context, seen observed, d decision) error {
	if err := r.applyCertificates(ctx, seen, d); err != nil {
		return err
	}
	if err := r.applyCABundle(ctx, seen, d); err != nil {
		return err
	}
	if err := apply.Object(ctx, r.Client, seen.service, d.service); err != nil {
		return err
	}
	if err := apply.Object(ctx, r.Client, seen.networkPolicy, d.networkPolicy); err != nil {
		return err
	}
	if err := r.applyDisruptionBudget(ctx, seen, d); err != nil {
		return err
	}
	return apply.Object(ctx, r.Client, seen.deployment, d.deployment)
}

// applyCertificates writes the CA first. Each step of a renewal is a single write of the CA, and
// clients accept the old serving certificate while it is served.
func (r *Reconciler) applyCertificates(ctx context.Context, seen observed, d decision) error {
	namespace := r.Instance.SystemNamespace
	if d.plan.Authority != nil {
		desired := d.plan.Secret(namespace, ownLabels())
		if _, err := apply.Secret(ctx, r.Client, seen.authority, desired); err != nil {
			return fmt.Errorf("writing the managed CA: %w", err)
		}
	}
	if d.serving != nil {
		desired := pki.ServingSecret(namespace, *d.serving, ownLabels())
		if _, err := apply.Secret(ctx, r.Client, seen.serving, desired); err != nil {
			return fmt.Errorf("writing the serving certificate: %w", err)
		}
	}
	return nil
}

// applyCABundle writes the bundle, and deletes it if the instance has no managed CA. A ConfigMap that
// the operator did not write stays.
func (r *Reconciler) applyCABundle(ctx context.Context, seen observed, d decision) error {
	if d.caBundle != nil {
		return apply.Object(ctx, r.Client, seen.caBundle, d.caBundle)
	}
	if seen.caBundle == nil || r.Instance.TLS.Managed != nil || seen.caBundle.Labels[v1beta1.ManagedByLabel] != v1beta1.ManagedBy {
		return nil
	}
	if err := r.Client.Delete(ctx, seen.caBundle); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the ConfigMap of the managed CA: %w", err)
	}
	return nil
}

func (r *Reconciler) applyDisruptionBudget(ctx context.Context, seen observed, d decision) error {
	if d.disruptionBudget != nil {
		return apply.Object(ctx, r.Client, seen.disruptionBudget, d.disruptionBudget)
	}
	if seen.disruptionBudget == nil {
		return nil
	}
	if err := r.Client.Delete(ctx, seen.disruptionBudget); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the PodDisruptionBudget: %w", err)
	}
	return nil
}
