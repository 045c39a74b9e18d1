package tokenservice

import (
	corev1 "k8s.io/api/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// setOwner makes the operator's service account the owner of the token service, so that
// uninstalling Realmkeeper deletes it. The operator's Deployment is not the owner, because users
// sometimes delete it manually and that must not stop the token service. Secrets have no owner
// because their content can't be recreated. All objects are in the namespace of their owner: the
// garbage collector deletes objects that name an owner in a different namespace.
func (d *decision) setOwner(operator *corev1.ServiceAccount) {
	if operator == nil {
		return
	}
	owner := metav1ac.OwnerReference().
		WithAPIVersion("v1").WithKind("ServiceAccount").WithName(operator.Name).WithUID(operator.UID)
	d.service.WithOwnerReferences(owner)
	d.networkPolicy.WithOwnerReferences(owner)
	d.deployment.WithOwnerReferences(owner)
	if d.caBundle != nil {
		d.caBundle.WithOwnerReferences(owner)
	}
	if d.disruptionBudget != nil {
		d.disruptionBudget.WithOwnerReferences(owner)
	}
}
