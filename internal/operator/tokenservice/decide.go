package tokenservice

import (
	"io"
	"time"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// decision is the desired state of the token service.
type decision struct {
	certificates

	service *corev1ac.ServiceApplyConfiguration
	// caBundle is nil if there is no managed CA.
	caBundle      *corev1ac.ConfigMapApplyConfiguration
	networkPolicy *networkingv1ac.NetworkPolicyApplyConfiguration
	// disruptionBudget is nil for a single replica because it would block the eviction of its Pod.
	disruptionBudget *policyv1ac.PodDisruptionBudgetApplyConfiguration
	deployment       *appsv1ac.DeploymentApplyConfiguration
}

// decide returns the desired state for the observed state. It is a pure function.
//
// Errors concern only the certificates; the rest of the decision is still valid. The error wraps
// authority.ErrUnusable if a user must act. Other errors come from random.
func decide(seen observed, instance *config.Instance, image string, now time.Time, random io.Reader) (decision, error) {
	d := decision{
		service:       service(instance),
		networkPolicy: networkPolicy(instance),
		deployment:    deployment(seen.deployment, instance, image),
	}
	if replicas(seen.deployment, instance) > 1 {
		d.disruptionBudget = disruptionBudget(instance)
	}
	if instance.TLS.Managed == nil {
		d.setOwner(seen.operator)
		return d, nil
	}
	// Return the rest of the decision even if the certificates fail. Other objects must not drift
	// because the CA is unreadable.
	var err error
	d.certificates, err = decideCertificates(seen, instance, now, random)
	if d.bundle != nil {
		d.caBundle = caBundle(instance, d.bundle)
	}
	d.setOwner(seen.operator)
	return d, err
}
