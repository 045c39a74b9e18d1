// Package operator sets up the operator: the manager, its caches and the four controllers.
package operator

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	k8sevents "k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/clock"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/instance"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/realm"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/serve/buildinfo"
)

// The records.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete,namespace=realmkeeper-system-records
// The heartbeats of token servers and operators.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create;list;watch;patch;delete,namespace=realmkeeper-system-records

// Options configures an operator.
type Options struct {
	Instance *config.Instance
	// Image is the image of the token servers. If empty, it is that of the operator's Pod.
	Image string
	// Pod is the name of the operator's Pod. It is empty if the operator runs outside a cluster.
	Pod string
	// LeaderElection must be true unless this is the only instance of the operator.
	LeaderElection bool
	// ProbeAddress is the listen address of the probes, or "0" to disable them.
	ProbeAddress string
	// KMSSocket is the socket of the KMS plugin. If empty, it is config.KMSSocket if the configuration
	// has a plugin, and otherwise keys are not encrypted.
	KMSSocket string
	// DialKMS connects to the KMS plugin at a socket. It isn't called if keys are not encrypted.
	DialKMS func(socket string, timeout time.Duration, metrics prometheus.Registerer) (KMS, error)
	// MetricsAddress is the listen address of the metrics, or "0" to disable them.
	MetricsAddress string
	// Local runs only the controllers of Realms and ApiClients, for an API that isn't that of a cluster.
	// There is no token service to run, and there are no Events and metrics. A process can run several
	// local operators.
	Local bool

	account string // the name of the operator's service account; empty outside a cluster
}

// Scheme returns a scheme with all types that the operator uses.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	return scheme, nil
}

// NewLocal returns a manager with the controllers of a local operator. The caller must start it.
func NewLocal(ctx context.Context, cfg *rest.Config, instance *config.Instance) (ctrl.Manager, error) {
	registerer := prometheus.NewRegistry()
	cfg, now := withClock(cfg, registerer)
	mgr, _, err := newManager(ctx, cfg, Options{Instance: instance, Local: true}, nil, &rollbacks{now: time.Now}, now, registerer)
	return mgr, err
}

// withClock returns a configuration whose clients read the API server's clock, and the time according to it. A
// wrong clock must not make the operator delete a key or secret too early.
func withClock(cfg *rest.Config, registerer prometheus.Registerer) (*rest.Config, func() time.Time) {
	started := time.Now()
	now := clock.New(time.Now, func() time.Duration { return time.Since(started) })
	now.RegisterMetrics(registerer)
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(now.Transport)
	return cfg, now.Now
}

// newManager returns a manager with the controllers, and the operator's caches. It sends no requests. Its metrics
// are registered with registerer. ctx must end when the manager has stopped.
func newManager(ctx context.Context, cfg *rest.Config, o Options, served []string, rolledBack *rollbacks, now func() time.Time, registerer prometheus.Registerer) (ctrl.Manager, *caches, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, nil, err
	}
	lock, err := newLock(cfg, o)
	if err != nil {
		return nil, nil, err
	}
	caches := newCaches(ctx)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                              scheme,
		MapperProvider:                      newMapper,
		Cache:                               cacheOptions(o.Instance, served, caches.newObjectInformer),
		LeaderElection:                      o.LeaderElection,
		LeaderElectionID:                    leader.LeaseName,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       new(leaseDuration),
		RenewDeadline:                       new(renewDeadline),
		RetryPeriod:                         new(retryPeriod),
		// Run serves these while there is no manager, too.
		HealthProbeBindAddress: "0",
		Metrics:                metricsserver.Options{BindAddress: "0"},
		// A process that starts over, or has several local operators, has controllers of the same name.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("creating the manager: %w", err)
	}
	if err := caches.add(ctx, mgr, o.Instance); err != nil {
		return nil, nil, err
	}
	if o.LeaderElection {
		lock.LockConfig.EventRecorder = electionEvents{mgr.GetEventRecorder(leader.LeaseName)}
		candidate := newCandidate(mgr, o.Instance.SystemNamespace, lock.Identity(), now)
		if mgr, err = newBarrier(mgr, candidate, caches.objects, caches.recordSecrets, caches.systemSecrets); err != nil {
			return nil, nil, err
		}
	}
	return mgr, caches, addControllers(ctx, mgr, caches, o, served, rolledBack, now, registerer)
}

func addControllers(ctx context.Context, mgr ctrl.Manager, caches *caches, o Options, served []string, rolledBack *rollbacks, now func() time.Time, registerer prometheus.Registerer) error {
	tracker := acknowledgement.NewTracker(mgr.GetAPIReader(), o.Instance.RecordsNamespace, now)
	operatorMetrics := metrics.New(registerer)
	records, err := recordstore.New(caches.recordInformer, mgr.GetAPIReader(), mgr.GetClient(), o.Instance.RecordsNamespace)
	if err != nil {
		return err
	}
	records.Cache = caches.records
	var recorder k8sevents.EventRecorder = &k8sevents.FakeRecorder{} // It records nothing.
	if !o.Local {
		recorder = mgr.GetEventRecorder(v1beta1.EventController)
	}
	uses := lastuse.New(o.Instance.RecordsNamespace, o.Instance.Scaled(o.Instance.Usage.Resolution.Duration), now, operatorMetrics.UsageReportRejected)
	if err := uses.Watch(ctx, mgr, tracker.Synced); err != nil {
		return err
	}
	issuers := trustedissuers.New(o.Instance, operatorMetrics, now, mathrand.Float64)
	if err := mgr.Add(issuers); err != nil {
		return fmt.Errorf("adding the fetcher of issuers' keys: %w", err)
	}
	if err := tracker.Watch(ctx, mgr, o.Instance.SystemNamespace, uses.Lose, uses, issuers); err != nil {
		return err
	}
	sealer, err := newSealer(ctx, o, now, registerer)
	if err != nil {
		return err
	}
	realms := &realm.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Records: records, Tracker: tracker, Issuers: issuers, Sealing: sealer,
		Clients: func(ctx context.Context, realm string) ([]v1beta1.ApiClient, error) {
			return apiclient.OfRealm(ctx, mgr.GetClient(), realm)
		},
		RolledBackAt: rolledBack.RolledBackAt,
		Instance:     o.Instance, Metrics: operatorMetrics, Events: events.NewRecorder(recorder), Now: now, Random: rand.Reader,
	}
	if err := realms.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the Realm controller: %w", err)
	}
	bundles := authority.NewReader(caches.system, mgr.GetAPIReader(), o.Instance.SystemNamespace)
	known := namespaces.New(mgr.GetCache(), mgr.GetAPIReader(), served, o.Instance.Scaled(pollInterval))
	clients := &apiclient.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Accounts: mgr.GetCache(), Records: records, Tracker: tracker, Usage: uses,
		Authority: bundles,
		Hasher:    providedsecrets.NewHasher(mgr.GetAPIReader(), rand.Reader), Namespaces: known,
		Instance: o.Instance, Metrics: operatorMetrics, Events: events.NewRecorder(recorder), Now: now, Random: rand.Reader,
	}
	if err := clients.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("setting up the ApiClient controller: %w", err)
	}
	registerer.MustRegister(metrics.NewClientCollector(mgr.GetCache(), caches.clients, o.Instance.Usage.StaleAfter.Duration, now))
	if o.Local {
		return nil
	}
	if err := caches.watchAll(ctx, served); err != nil {
		return err
	}
	registerer.MustRegister(buildinfo.NewMetric())
	recovered := func() { // What failed during the outage would otherwise wait for its next retry.
		realms.ReconcileAll(ctx)
		clients.ReconcileAll(ctx)
	}
	if err := addBeacon(mgr, caches, o.Instance.RecordsNamespace, rolledBack, recovered); err != nil {
		return err
	}
	service := &tokenservice.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), System: caches.system, Metrics: operatorMetrics, Events: recorder,
		Instance: o.Instance, Image: o.Image, Account: o.account, Now: now, Random: rand.Reader,
	}
	if err := service.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the token service controller: %w", err)
	}
	state := &instance.Reconciler{
		Client: mgr.GetClient(), System: caches.system, Authority: bundles, Tracker: tracker, Sealing: sealer,
		Instance: o.Instance, Events: events.NewRecorder(recorder), Version: version.Version, Now: now,
	}
	if err := state.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the Instance controller: %w", err)
	}
	return nil
}

// cacheOptions limits the manager's cache. It contains ApiClients, ServiceAccounts, and Secrets with a
// client secret label from the served namespaces, or from all namespaces if served is empty. Heartbeat
// Leases and usage reports are cached only from the records namespace, and the token service's
// objects only from the system namespace, the bundle of the CA by its name.
//
// Reads return the cached objects, because copies would take most of the time of a reconcile that changes
// nothing. No caller changes what it has read; the integration tests fail if one does.
func cacheOptions(instance *config.Instance, served []string, newInformer newInformer) cache.Options {
	system := map[string]cache.Config{instance.SystemNamespace: {LabelSelector: managedByOperator()}}
	heartbeats := map[string]cache.Config{instance.RecordsNamespace: {LabelSelector: selecting(heartbeat.Label)}}
	configMaps := map[string]cache.Config{
		instance.RecordsNamespace: {LabelSelector: selecting(usage.Label), Transform: cache.TransformStripManagedFields()},
		instance.SystemNamespace:  {FieldSelector: fields.OneTermEqualSelector("metadata.name", tokenservice.BundleName)},
	}
	clientSecrets := selecting(v1beta1.ClientSecretLabel + " in (" + v1beta1.ClientSecretGenerated + "," + v1beta1.ClientSecretProvided + ")")
	clients := map[string]cache.Config{}
	for _, namespace := range served {
		clients[namespace] = cache.Config{}
	}
	return cache.Options{NewInformer: newInformer, DefaultUnsafeDisableDeepCopy: new(true), ByObject: map[client.Object]cache.ByObject{
		&v1beta1.ApiClient{}:            {Namespaces: clients, Transform: stripApiClient},
		&corev1.Secret{}:                {Namespaces: clients, Label: clientSecrets, Transform: stripSecrets},
		&corev1.ServiceAccount{}:        {Namespaces: clients, Transform: onlyIdentity},
		&corev1.Namespace{}:             {Transform: cache.TransformStripManagedFields()},
		&coordinationv1.Lease{}:         {Namespaces: heartbeats},
		&corev1.ConfigMap{}:             {Namespaces: configMaps},
		&corev1.Service{}:               {Namespaces: system},
		&networkingv1.NetworkPolicy{}:   {Namespaces: system},
		&policyv1.PodDisruptionBudget{}: {Namespaces: system},
		&appsv1.Deployment{}:            {Namespaces: system},
	}}
}

// onlyIdentity removes the parts of a service account's metadata that the operator doesn't need.
func onlyIdentity(obj any) (any, error) {
	if metadata, ok := obj.(*metav1.PartialObjectMetadata); ok {
		metadata.Labels, metadata.Annotations, metadata.OwnerReferences, metadata.ManagedFields = nil, nil, nil, nil
	}
	return obj, nil
}

// selecting parses a constant selector: a label, which must exist, or a label and its value or values.
func selecting(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return selector
}

func managedByOperator() labels.Selector {
	return selecting(v1beta1.ManagedByLabel + "=" + v1beta1.ManagedBy)
}
