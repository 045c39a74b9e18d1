package instance

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

// observed is the state that the status is based on.
type observed struct {
	instance *v1beta1.Instance // nil if there is none
	servers  []acknowledgement.Server
	// deployment is that of the token servers; nil if there is none.
	deployment *appsv1.Deployment
	// ca is the managed CA; nil if there is none. unusable is the reason why it can't be read.
	ca       *authority.Authority
	unusable error
	mode     sealing.Mode
	// keyID is the ID of the key with which the KMS plugin encrypts. It is empty if the plugin doesn't respond.
	keyID string
}

// gather reads from caches, and asks the KMS plugin.
func (r *Reconciler) gather(ctx context.Context) (observed, error) {
	seen := observed{instance: &v1beta1.Instance{}, servers: r.Tracker.Servers(), mode: r.Sealing.Mode}
	if err := r.Client.Get(ctx, singleton.NamespacedName, seen.instance); apierrors.IsNotFound(err) {
		seen.instance = nil
	} else if err != nil {
		return observed{}, fmt.Errorf("reading the Instance: %w", err)
	}
	if seen.mode == sealing.Encrypt && seen.instance != nil {
		seen.keyID = r.keyID(ctx, seen.instance)
	}
	deployment := &appsv1.Deployment{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Instance.SystemNamespace, Name: config.TokenServiceName}, deployment)
	if client.IgnoreNotFound(err) != nil {
		return observed{}, fmt.Errorf("reading the Deployment of the token servers: %w", err)
	}
	if err == nil {
		seen.deployment = deployment
	}
	if r.Instance.TLS.Managed == nil {
		return seen, nil
	}
	if seen.ca, err = r.Authority.Authority(ctx); errors.Is(err, authority.ErrUnusable) {
		seen.unusable, err = err, nil
	}
	return seen, err
}

// keyID asks the KMS plugin. It logs an error once, as long as the status shows it.
func (r *Reconciler) keyID(ctx context.Context, instance *v1beta1.Instance) string {
	id, err := r.Sealing.Encrypter.Status(ctx)
	if err == nil {
		return id
	}
	if !meta.IsStatusConditionFalse(instance.Status.Conditions, string(v1beta1.ConditionKMSConnected)) {
		ctrl.LoggerFrom(ctx).Error(err, "The KMS plugin does not respond, will retry")
	}
	return ""
}
