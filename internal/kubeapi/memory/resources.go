package memory

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoac "k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	v1beta1ac "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration"
)

// Resources returns Realmkeeper's own resources, and those of Kubernetes that the controllers of Realms and
// ApiClients and the token servers use.
func Resources() []Resource {
	return []Resource{
		{GroupVersionResource: v1beta1.GroupVersion.WithResource("realms"), Kind: "Realm", HasStatus: true},
		{GroupVersionResource: v1beta1.GroupVersion.WithResource("apiclients"), Kind: "ApiClient", Namespaced: true, HasStatus: true},
		{GroupVersionResource: v1beta1.GroupVersion.WithResource("instances"), Kind: "Instance", HasStatus: true},
		{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), Kind: "Namespace"},
		{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Kind: "Secret", Namespaced: true},
		{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: "ConfigMap", Namespaced: true},
		{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), Kind: "ServiceAccount", Namespaced: true},
		{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Kind: "Lease", Namespaced: true},
		{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), Kind: "ClusterRoleBinding"},
	}
}

// Types returns the types of the objects of Resources. scheme must contain them.
func Types(scheme *runtime.Scheme) managedfields.TypeConverter {
	return typeConverter{own: v1beta1ac.NewTypeConverter(scheme), others: clientgoac.NewTypeConverter(scheme)}
}

// typeConverter uses the schemas of Realmkeeper for its own objects, and those of Kubernetes for others.
type typeConverter struct{ own, others managedfields.TypeConverter }

func (t typeConverter) of(object runtime.Object) managedfields.TypeConverter {
	if object.GetObjectKind().GroupVersionKind().Group == v1beta1.GroupVersion.Group {
		return t.own
	}
	return t.others
}

func (t typeConverter) ObjectToTyped(object runtime.Object, o ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return t.of(object).ObjectToTyped(object, o...)
}

func (t typeConverter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return t.own.TypedToObject(value)
}
