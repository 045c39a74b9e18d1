// Package instance reconciles the Instance, which shows the state of the installation. It creates the object
// and writes its status, and nothing else depends on it.
package instance

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
)

// The operator creates the Instance and reports the state of the installation in it.
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=instances,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=instances/status,verbs=patch

// Reconciler reconciles the Instance. All exported fields are required.
type Reconciler struct {
	Client    client.Client
	System    cache.Cache // the operator's certificates in the system namespace
	Authority *authority.Reader
	Tracker   *acknowledgement.Tracker
	Sealing   *sealing.Sealer
	Instance  *config.Instance
	Events    *events.Recorder
	// Version is the version of this operator.
	Version string
	Now     func() time.Time
}

// singleton is the only request of this controller.
var singleton = reconcile.Request{NamespacedName: types.NamespacedName{Name: v1beta1.InstanceName}}

// SetupWithManager adds the controller to the manager. It reconciles at startup, and when the Instance, a
// token server, the spec of their Deployment, the reason why it has no Pods, or the managed CA changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{singleton}
	})
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.Instance{}).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(singleton)
			return nil
		})).
		WatchesRawSource(source.Kind(r.System, client.Object(&corev1.Secret{}), enqueue,
			predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == authority.SecretName }))).
		Watches(&appsv1.Deployment{}, enqueue, builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
			return obj.GetName() == config.TokenServiceName
		}), predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: replicaFailureChanged}))).
		WatchesRawSource(r.Tracker.ServersSource(singleton.Name)).
		WithOptions(controller.Options{RateLimiter: queue.NewLimiter()}).
		Complete(apply.RetryConflicts(r))
}

func replicaFailureChanged(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*appsv1.Deployment)
	after, okAfter := e.ObjectNew.(*appsv1.Deployment)
	return okBefore && okAfter && replicaFailure(before) != replicaFailure(after)
}
