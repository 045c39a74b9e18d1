package tokenservice

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
)

// observed is the state that a decision is based on. Objects that don't exist are nil.
type observed struct {
	authority *corev1.Secret
	serving   *corev1.Secret
	// operator is the operator's service account. It is nil if the operator runs outside a cluster.
	operator *corev1.ServiceAccount

	caBundle         *corev1.ConfigMap
	service          *corev1.Service
	networkPolicy    *networkingv1.NetworkPolicy
	disruptionBudget *policyv1.PodDisruptionBudget
	deployment       *appsv1.Deployment
}

// gather reads the objects of the token service.
func (r *Reconciler) gather(ctx context.Context) (observed, error) {
	var (
		seen observed
		err  error
	)
	read := func(from client.Reader, name string, into client.Object) bool {
		if err != nil {
			return false
		}
		key := client.ObjectKey{Namespace: r.Instance.SystemNamespace, Name: name}
		err = from.Get(ctx, key, into)
		if _, secret := into.(*corev1.Secret); secret && apierrors.IsNotFound(err) {
			err = r.Live.Get(ctx, key, into) // a CA that a user created lacks the label that the cache selects
		}
		if apierrors.IsNotFound(err) {
			err = nil
			return false
		}
		if err != nil {
			err = fmt.Errorf("reading %T %s: %w", into, name, err)
		}
		return err == nil
	}
	seen.authority = orNil(&corev1.Secret{}, func(o *corev1.Secret) bool { return read(r.System, authority.SecretName, o) })
	seen.serving = orNil(&corev1.Secret{}, func(o *corev1.Secret) bool { return read(r.System, pki.ServingSecretName, o) })
	if r.Account != "" {
		seen.operator = orNil(&corev1.ServiceAccount{}, func(o *corev1.ServiceAccount) bool { return read(r.Live, r.Account, o) })
	}
	const name = config.TokenServiceName
	seen.caBundle = orNil(&corev1.ConfigMap{}, func(o *corev1.ConfigMap) bool { return read(r.Client, BundleName, o) })
	seen.service = orNil(&corev1.Service{}, func(o *corev1.Service) bool { return read(r.Client, name, o) })
	seen.networkPolicy = orNil(&networkingv1.NetworkPolicy{}, func(o *networkingv1.NetworkPolicy) bool { return read(r.Client, name, o) })
	seen.disruptionBudget = orNil(&policyv1.PodDisruptionBudget{}, func(o *policyv1.PodDisruptionBudget) bool { return read(r.Client, name, o) })
	seen.deployment = orNil(&appsv1.Deployment{}, func(o *appsv1.Deployment) bool { return read(r.Client, name, o) })
	return seen, err
}

// orNil returns the object if found reports that it exists, or nil otherwise.
func orNil[T any](object *T, found func(*T) bool) *T {
	if found(object) {
		return object
	}
	return nil
}
