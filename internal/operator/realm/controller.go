// Package realm reconciles Realms. It generates and rotates their signing keys, and writes their
// records and status.
package realm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
)

// What realms specify, and their status.
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=realms,verbs=get;list;watch
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=realms/status,verbs=patch

// Reconciler reconciles Realms. All fields are required.
type Reconciler struct {
	Client  client.Client
	Live    client.Reader // bypasses the cache
	Records *recordstore.Store
	Tracker *acknowledgement.Tracker
	Issuers *trustedissuers.Fetcher
	Sealing *sealing.Sealer
	// Clients returns the ApiClients that refer to a Realm, from the cache. They must not be changed.
	Clients func(ctx context.Context, realm string) ([]v1beta1.ApiClient, error)
	// RolledBackAt returns when this process found that the API server had been rolled back, or adopted that another
	// operator did; zero if never.
	RolledBackAt func() time.Time

	Instance *config.Instance
	Metrics  *metrics.Metrics
	Events   *events.Recorder
	Now      func() time.Time
	Random   io.Reader

	everything queue.Source
}

// SetupWithManager adds the controller to the manager. It reconciles a Realm when its spec or
// record changes, when the record's state at the token servers changes, when the keys of a trusted
// issuer change, and when the number of its clients changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.Realm{}, builder.WithPredicates(condition.Changed())).
		Watches(&v1beta1.ApiClient{}, cache{r.Client}.countHandler(r.Now)).
		WatchesRawSource(r.Records.Source(nil, record.KindRealm)).
		WatchesRawSource(r.Tracker.Source(acknowledgement.Realm)).
		WatchesRawSource(&r.Issuers.Changed).
		WatchesRawSource(&r.everything).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency, RateLimiter: queue.NewLimiter(),
			NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
				return queue.New(name, limiter, limits, cache{r.Client}.urgent)
			},
		}).
		Complete(apply.RetryConflicts(r))
}

// ReconcileAll reconciles all Realms soon, for example because their requests failed during an outage and
// would wait for their next retry.
func (r *Reconciler) ReconcileAll(ctx context.Context) {
	realms := &v1beta1.RealmList{}
	if err := r.Client.List(ctx, realms); err != nil {
		// A running cache does not return errors, so the process must be stopping.
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list Realms")
		return
	}
	for i := range realms.Items {
		r.everything.Enqueue(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&realms.Items[i])})
	}
}

// errInconclusive means that what was read from the API server is inconsistent: it has changed between the reads.
var errInconclusive = errors.New("the Realm and its record do not belong together")

// maxRounds is the largest number of decisions in one Reconcile. It needs six if the caches lag, a step of the keys
// is confirmed before and after that, and the Sealer generates a key.
const maxRounds = 8

// Reconcile reconciles one Realm. It decides from the caches first. If they turn out to lag, because the record
// implements a newer Realm or a write conflicts, it decides again from the API server, once. It updates the status
// even if it fails to write the record.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, err := r.read(ctx, req, false)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.collect(ctx, req, &seen); err != nil || seen.realm == nil {
		return ctrl.Result{}, err
	}
	for range maxRounds {
		r.follow(req, &seen)
		d, err := decide(&seen, r.Instance, r.Now(), r.Random)
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("deciding on Realm %q: %w", req.Name, err)
		}
		if d.lacks == 0 {
			err := write(ctx, r.Records, &seen, d.put)
			result, err := r.report(ctx, req, &seen, d, err)
			if seen.live || !apply.IsStale(err) {
				return result, err
			}
			d.lacks = lacksLive
		}
		if err := r.fetch(ctx, req, &seen, d); err != nil || seen.realm == nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, errInconclusive
}
