// Package tokenservice keeps the token service of the instance as the configuration says:
// the token servers' Deployment and what belongs to it, and the serving certificate.
package tokenservice

import (
	"context"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
)

// Where owner references are guarded (OwnerReferencesPermissionEnforcement), only who may delete an object may
// change whose it is.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// The operator takes the token servers' image from its own pod.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get,namespace=realmkeeper-system
// The operator can give token servers only rights that it has itself.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;patch;update;delete,namespace=realmkeeper-system
// +kubebuilder:rbac:groups="",resources=secrets,verbs=delete,namespace=realmkeeper-system

// Reconciler reconciles the token service. All fields are required but Account.
type Reconciler struct {
	Client   client.Client
	Live     client.Reader // asks the API server itself
	System   cache.Cache   // our Secrets in the system namespace
	Instance *config.Instance
	// Image is what the token servers run.
	Image string
	// Account is the name of the service account that the operator runs as; empty outside a
	// cluster.
	Account string
	Now     func() time.Time
	Random  io.Reader
}

// theService is the one request there is.
var theService = reconcile.Request{NamespacedName: types.NamespacedName{Name: config.TokenServiceName}}

// SetupWithManager makes the manager run the reconciler: at the start, and whenever one of
// the objects that it keeps changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{theService}
	})
	kept := builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetName() == config.TokenServiceName
	}))
	// Of what has a generation, changes of the status are no drift.
	keptSpec := builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetName() == config.TokenServiceName
	}), predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))

	return ctrl.NewControllerManagedBy(mgr).
		Named("tokenservice").
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(theService)
			return nil
		})).
		WatchesRawSource(source.Kind(r.System, client.Object(&corev1.Secret{}), enqueue,
			predicate.NewPredicateFuncs(func(obj client.Object) bool {
				return obj.GetName() == servingcert.AuthoritySecret || obj.GetName() == servingcert.ServingSecret
			}))).
		Watches(&corev1.ServiceAccount{}, enqueue, kept).
		Watches(&rbacv1.Role{}, enqueue, kept).
		Watches(&rbacv1.RoleBinding{}, enqueue, kept).
		Watches(&corev1.Service{}, enqueue, kept).
		Watches(&networkingv1.NetworkPolicy{}, enqueue, keptSpec).
		Watches(&policyv1.PodDisruptionBudget{}, enqueue, keptSpec).
		Watches(&appsv1.Deployment{}, enqueue, keptSpec).
		Complete(apply.RetryConflicts(r))
}
