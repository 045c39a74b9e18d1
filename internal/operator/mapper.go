package operator

import (
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// newMapper returns a mapping from the kinds that the operator uses to their resources. It needs no
// discovery, because these kinds are fixed. Its lookups are also much cheaper than those in the
// result of discovery, which matters because caches look up the kind in each request.
func newMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(scope meta.RESTScope, version schema.GroupVersion, kinds ...string) {
		for _, kind := range kinds {
			plural, singular := meta.UnsafeGuessKindToResource(version.WithKind(kind))
			mapper.AddSpecific(version.WithKind(kind+"List"), plural, singular, scope)
			mapper.AddSpecific(version.WithKind(kind), plural, singular, scope)
		}
	}
	add(meta.RESTScopeNamespace, corev1.SchemeGroupVersion, "Secret", "ServiceAccount", "ConfigMap", "Service", "Pod")
	add(meta.RESTScopeRoot, corev1.SchemeGroupVersion, "Namespace")
	add(meta.RESTScopeNamespace, appsv1.SchemeGroupVersion, "Deployment")
	add(meta.RESTScopeNamespace, coordinationv1.SchemeGroupVersion, "Lease")
	add(meta.RESTScopeNamespace, networkingv1.SchemeGroupVersion, "NetworkPolicy")
	add(meta.RESTScopeNamespace, policyv1.SchemeGroupVersion, "PodDisruptionBudget")
	add(meta.RESTScopeRoot, certificatesv1beta1.SchemeGroupVersion, "ClusterTrustBundle")
	add(meta.RESTScopeRoot, rbacv1.SchemeGroupVersion, "ClusterRoleBinding")
	add(meta.RESTScopeNamespace, v1beta1.GroupVersion, "ApiClient")
	add(meta.RESTScopeRoot, v1beta1.GroupVersion, "Realm", "Instance")
	return mapper, nil
}
