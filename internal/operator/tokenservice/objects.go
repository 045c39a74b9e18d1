package tokenservice

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// Ports of the token server container and the Service.
const (
	portHTTPS      = "https"
	portOperations = "operations"

	containerHTTPS      = 8443
	containerOperations = 8080
	serviceHTTPS        = 443
)

// selector returns the labels that select the token server Pods. It must not change, because the
// selector of a Deployment is immutable.
func selector() map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":      "realmkeeper",
		"app.kubernetes.io/component": "token-server",
	}
}

// labels returns the labels of the objects.
func labels(instance *config.Instance) map[string]string {
	l := map[string]string{}
	maps.Copy(l, instance.CommonLabels)
	maps.Copy(l, ownLabels())
	return l
}

// ownLabels returns the labels that take precedence over the configured ones. The Secrets with the
// certificates have no others, because the API server denies the operator a label with which Helm would
// treat a Secret as its own.
func ownLabels() map[string]string {
	l := selector()
	l[v1beta1.ManagedByLabel] = v1beta1.ManagedBy
	return l
}

// BundleName is the name of the ConfigMap in the system namespace with the certificates that clients
// must trust. It isn't secret.
const BundleName = "realmkeeper-ca-bundle"

func caBundle(instance *config.Instance, bundle []byte) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(BundleName, instance.SystemNamespace).WithLabels(labels(instance)).
		WithData(map[string]string{corev1.ServiceAccountRootCAKey: string(bundle)})
}

func service(instance *config.Instance) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(config.TokenServiceName, instance.SystemNamespace).WithLabels(labels(instance)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(selector()).
			WithPorts(corev1ac.ServicePort().
				WithName(portHTTPS).
				WithProtocol(corev1.ProtocolTCP).
				WithPort(serviceHTTPS).
				WithTargetPort(intstr.FromString(portHTTPS))))
}

// networkPolicy allows connections from anywhere to the public port. It allows connections from
// Pods in the cluster to the operations port, for probes and metrics. It does not restrict egress,
// because the address of the API server depends on the cluster.
func networkPolicy(instance *config.Instance) *networkingv1ac.NetworkPolicyApplyConfiguration {
	anyNamespace := networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(metav1ac.LabelSelector())
	return networkingv1ac.NetworkPolicy(config.TokenServiceName, instance.SystemNamespace).WithLabels(labels(instance)).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selector())).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(
				networkingv1ac.NetworkPolicyIngressRule().WithPorts(policyPort(containerHTTPS)),
				networkingv1ac.NetworkPolicyIngressRule().WithPorts(policyPort(containerOperations)).WithFrom(anyNamespace),
			))
}

func policyPort(port int) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return networkingv1ac.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromInt(port))
}

func disruptionBudget(instance *config.Instance) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(config.TokenServiceName, instance.SystemNamespace).WithLabels(labels(instance)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector())))
}
