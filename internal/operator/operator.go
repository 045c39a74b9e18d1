// Package operator puts the operator together: caches, client and the three controllers.
package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clock"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
	"github.com/realmkeeper/realmkeeper/internal/operator/realm"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
)

// leaderLease is the name of the Lease that the leader holds.
const leaderLease = "realmkeeper-operator"

// A leader that was killed is followed when its Lease has run out and somebody looks, 14
// seconds later at most. One that can't renew its Lease stops in time before that.
const (
	leaseDuration = 12 * time.Second
	renewDeadline = 8 * time.Second
	retryPeriod   = 2 * time.Second
)

// Options are what an operator stands on.
type Options struct {
	Instance *config.Instance
	// Image is what the token servers run.
	Image string
	// Account is the service account that the operator runs as; empty outside a cluster.
	Account string
	// LeaderElection is off only where nobody else can run.
	LeaderElection bool
	// Addresses of the probes and the metrics, as for net.Listen; "0" for none.
	ProbeAddress   string
	MetricsAddress string
}

// Scheme returns the types that the operator works with.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	return scheme, nil
}

// New returns a manager with the three controllers, ready to start.
func New(ctx context.Context, cfg *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	namespace := o.Instance.SystemNamespace
	now := clock.New(clock.ThisMachine())
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(now.Transport) // so that no clock that steps makes the operator drop a key or secret too early
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions(namespace),
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaderLease,
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
		HealthProbeBindAddress:        o.ProbeAddress,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsAddress},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := addControllers(ctx, mgr, o, now.Now); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr)); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

func addControllers(ctx context.Context, mgr ctrl.Manager, o Options, now func() time.Time) error {
	namespace := o.Instance.SystemNamespace
	system, err := systemCache(mgr, namespace)
	if err != nil {
		return err
	}
	operatorMetrics := metrics.New(ctrlmetrics.Registry)
	records, err := recordstore.New(ctx, system, mgr.GetAPIReader(), mgr.GetClient(), namespace, operatorMetrics.GarbageCollected(metrics.Record))
	if err != nil {
		return err
	}
	events := mgr.GetEventRecorder(v1alpha1.EventController)
	tracker := acknowledgement.NewTracker()
	if err := tracker.Watch(ctx, mgr, namespace, now, operatorMetrics.GarbageCollected(metrics.Lease)); err != nil {
		return err
	}
	realms := &realm.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Records: records, Tracker: tracker,
		Instance: o.Instance, Metrics: operatorMetrics, Events: notice.NewRecorder(events), Now: now, Random: rand.Reader,
	}
	if err := realms.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the Realm controller: %w", err)
	}
	accounts, err := accountCache(mgr)
	if err != nil {
		return err
	}
	clients := &apiclient.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: accounts, Records: records, Tracker: tracker,
		Authority: servingcert.NewAuthorityReader(system, mgr.GetAPIReader(), namespace),
		Instance:  o.Instance, Metrics: operatorMetrics, Events: notice.NewRecorder(events), Now: now, Random: rand.Reader,
	}
	if err := clients.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("setting up the ApiClient controller: %w", err)
	}
	ctrlmetrics.Registry.MustRegister(apiclient.NewClientCollector(mgr.GetCache()))
	service := &tokenservice.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), System: system,
		Instance: o.Instance, Image: o.Image, Account: o.Account, Now: now, Random: rand.Reader,
	}
	if err := service.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the token service controller: %w", err)
	}
	return nil
}

// cacheOptions keeps out of memory what isn't ours: of Secrets those that are labelled as
// client secrets, of the token service's kinds what stands in the system namespace.
func cacheOptions(namespace string) cache.Options {
	here := map[string]cache.Config{namespace: {LabelSelector: managedByUs()}}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}:                {Label: clientSecrets(), Transform: withoutBulk},
		&corev1.Namespace{}:             {Transform: cache.TransformStripManagedFields()},
		&coordinationv1.Lease{}:         {Namespaces: map[string]cache.Config{namespace: {LabelSelector: labels.SelectorFromSet(labels.Set{heartbeat.Label: heartbeat.LabelValue})}}},
		&corev1.ServiceAccount{}:        {Namespaces: here},
		&corev1.Service{}:               {Namespaces: here},
		&rbacv1.Role{}:                  {Namespaces: here},
		&rbacv1.RoleBinding{}:           {Namespaces: here},
		&networkingv1.NetworkPolicy{}:   {Namespaces: here},
		&policyv1.PodDisruptionBudget{}: {Namespaces: here},
		&appsv1.Deployment{}:            {Namespaces: here},
	}}
}

// systemCache holds our Secrets in the system namespace: records and certificates. It is
// apart from the manager's cache, which holds consumer Secrets by another label.
func systemCache(mgr ctrl.Manager, namespace string) (cache.Cache, error) {
	system, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme:            mgr.GetScheme(),
		Mapper:            mgr.GetRESTMapper(),
		HTTPClient:        mgr.GetHTTPClient(),
		DefaultNamespaces: map[string]cache.Config{namespace: {LabelSelector: managedByUs()}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of the system namespace: %w", err)
	}
	if err := mgr.Add(system); err != nil {
		return nil, fmt.Errorf("adding the cache of the system namespace: %w", err)
	}
	return system, nil
}

// accountCache holds of all service accounts who they are. It is apart from the manager's cache,
// which holds the token servers' own in full.
func accountCache(mgr ctrl.Manager) (cache.Cache, error) {
	accounts, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme:           mgr.GetScheme(),
		Mapper:           mgr.GetRESTMapper(),
		HTTPClient:       mgr.GetHTTPClient(),
		DefaultTransform: onlyIdentity,
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of service accounts: %w", err)
	}
	if err := mgr.Add(accounts); err != nil {
		return nil, fmt.Errorf("adding the cache of service accounts: %w", err)
	}
	return accounts, nil
}

// onlyIdentity keeps out of memory what others write into an object's metadata.
func onlyIdentity(obj any) (any, error) {
	if metadata, ok := obj.(*metav1.PartialObjectMetadata); ok {
		metadata.Labels, metadata.Annotations, metadata.OwnerReferences, metadata.ManagedFields = nil, nil, nil, nil
	}
	return obj, nil
}

// clientSecrets selects the consumer Secrets and those that people provide.
func clientSecrets() labels.Selector {
	in, err := labels.NewRequirement(v1alpha1.ClientSecretLabel, selection.In, []string{v1alpha1.ClientSecretGenerated, v1alpha1.ClientSecretProvided})
	if err != nil {
		panic(err) // the label and its values are constants
	}
	return labels.NewSelector().Add(*in)
}

func managedByUs() labels.Selector {
	return labels.SelectorFromSet(labels.Set{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy})
}

// bulk is more than a consumer Secret can hold of ours.
const bulk = 64 << 10

// withoutBulk keeps a Secret of more than that out of memory: anybody can label anything.
// Where its data is needed it is read from the API server.
func withoutBulk(obj any) (any, error) {
	if secret, ok := obj.(*corev1.Secret); ok {
		size := 0
		for key, value := range secret.Data {
			size += len(key) + len(value)
		}
		if size > bulk {
			secret.Data = nil
		}
	}
	return obj, nil
}

func cachesSynced(mgr ctrl.Manager) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errNotSynced
		}
		return nil
	}
}

var errNotSynced = errors.New("the caches are not filled yet")
