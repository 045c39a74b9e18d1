// Package tokenservice reconciles the token service of the instance with its configuration: the
// token server Deployment, the related objects, and the serving certificate.
package tokenservice

import (
	"context"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
)

// The objects of the token service. The OwnerReferencesPermissionEnforcement admission plugin requires
// delete permission on an object to change its owner references.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system
// The operator makes its own service account the owner of the objects.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,resourceNames=realmkeeper-operator,verbs=get,namespace=realmkeeper-system
// The operator reads the default token server image from its own Pod.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get,namespace=realmkeeper-system
// The certificates that clients must trust. Informers select the ConfigMap by its name.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create,namespace=realmkeeper-system
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=realmkeeper-ca-bundle,verbs=get;list;watch;patch;delete,namespace=realmkeeper-system
// The managed CA and the serving certificate.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch,namespace=realmkeeper-system

// Reconciler reconciles the token service. All exported fields except Account are required.
type Reconciler struct {
	Client   client.Client
	Live     client.Reader // bypasses the cache
	System   cache.Cache   // the operator's certificates in the system namespace
	Metrics  *metrics.Metrics
	Events   events.EventRecorder
	Instance *config.Instance
	// Image is the image of the token servers.
	Image string
	// Account is the name of the operator's service account. It is empty if the operator runs
	// outside a cluster.
	Account string
	Now     func() time.Time
	Random  io.Reader
}

// singleton is the only request of this controller.
var singleton = reconcile.Request{NamespacedName: types.NamespacedName{Name: config.TokenServiceName}}

// SetupWithManager adds the controller to the manager. It reconciles at startup and when one of the
// managed objects changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{singleton}
	})
	managed := builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetName() == config.TokenServiceName
	}))
	// Ignore status changes of objects that have a generation.
	managedSpec := builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetName() == config.TokenServiceName
	}), predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))

	return ctrl.NewControllerManagedBy(mgr).
		Named("tokenservice").
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(singleton)
			return nil
		})).
		WatchesRawSource(source.Kind(r.System, client.Object(&corev1.Secret{}), enqueue,
			predicate.NewPredicateFuncs(func(obj client.Object) bool {
				return obj.GetName() == authority.SecretName || obj.GetName() == pki.ServingSecretName
			}))).
		Watches(&corev1.ConfigMap{}, enqueue, builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
			return obj.GetNamespace() == r.Instance.SystemNamespace && obj.GetName() == BundleName
		}))).
		Watches(&corev1.Service{}, enqueue, managed).
		Watches(&networkingv1.NetworkPolicy{}, enqueue, managedSpec).
		Watches(&policyv1.PodDisruptionBudget{}, enqueue, managedSpec).
		Watches(&appsv1.Deployment{}, enqueue, managedSpec).
		WithOptions(controller.Options{RateLimiter: queue.NewLimiter()}).
		Complete(apply.RetryConflicts(r))
}
