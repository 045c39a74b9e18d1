package tokenservice

import (
	corev1 "k8s.io/api/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// belongTo makes the token service go with the operator's service account. That goes when
// Realmkeeper is uninstalled, and hardly ever else: the Deployment of the operator is
// deleted by hand now and then, which must not end the token service. Secrets stay: they
// hold what can't be made again.
func (d *decision) belongTo(operator *corev1.ServiceAccount) {
	if operator == nil {
		return
	}
	owner := metav1ac.OwnerReference().
		WithAPIVersion("v1").WithKind("ServiceAccount").WithName(operator.Name).WithUID(operator.UID)
	d.serviceAccount.WithOwnerReferences(owner)
	d.role.WithOwnerReferences(owner)
	d.roleBinding.WithOwnerReferences(owner)
	d.service.WithOwnerReferences(owner)
	d.networkPolicy.WithOwnerReferences(owner)
	d.deployment.WithOwnerReferences(owner)
	if d.disruptionBudget != nil {
		d.disruptionBudget.WithOwnerReferences(owner)
	}
}
