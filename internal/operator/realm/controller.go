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
	// RolledBackAt returns when this process found that the API server had been rolled back; zero if never.
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
		Watches(&v1beta1.ApiClient{}, r.countHandler()).
		WatchesRawSource(r.Records.Source(nil, record.KindRealm)).
		WatchesRawSource(r.Tracker.Source(acknowledgement.Realm)).
		WatchesRawSource(&r.Issuers.Changed).
		WatchesRawSource(&r.everything).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency, RateLimiter: queue.NewLimiter(),
			NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
				return queue.New(name, limiter, limits, r.urgent)
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

// Reconcile reconciles one Realm. It decides from the caches first. If they turn out to lag, because the
// record implements a newer Realm or a write conflicts, it decides again from the API server.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, req, false)
	if errors.Is(err, errInconclusive) || apply.IsStale(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("Reconciling with the API server instead of the cache", "reason", err.Error())
		return r.reconcile(ctx, req, true)
	}
	return result, err
}

// errInconclusive means that a decision would be based on an older Realm than the one that its record
// implements. If both were read from the API server, the Realm has changed between the reads.
var errInconclusive = errors.New("the Realm that was read is older than its record")

// reconcile reads, decides, and writes. It updates the status even if it fails to write the record.
func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request, live bool) (ctrl.Result, error) {
	seen, err := r.gather(ctx, req, live)
	if err != nil || seen.realm == nil {
		return ctrl.Result{}, err
	}
	now := r.Now()
	decided, err := r.decide(ctx, &seen, now)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deciding on Realm %q: %w", req.Name, err)
	}
	r.Issuers.Want(req.Name, decided.fetch)
	state, written, applyErr := r.apply(ctx, req, &seen, decided)
	if decided.generate != "" && !written && applyErr == nil {
		// Every other change has been written, so a key that takes long delays no restriction. If one was
		// written now, its event triggers the next reconcile.
		if decided, err = r.generate(ctx, seen, decided, now); err != nil {
			return ctrl.Result{}, err
		}
		state, _, applyErr = r.apply(ctx, req, &seen, decided)
	}
	if apply.IsStale(applyErr) {
		// The decision may be based on stale data, so do not report it in the status.
		return ctrl.Result{}, applyErr
	}
	r.measure(req.Name, decided, state, applyErr)
	desired := status(seen.realm, decided, state, r.Instance, now)
	held := countWait(seen.realm, desired, now)
	var statusErr error
	if held == 0 {
		statusErr = r.writeStatus(ctx, seen.realm, desired)
	}
	return ctrl.Result{RequeueAfter: requeueAfter(&seen, decided, held, now)}, errors.Join(applyErr, statusErr)
}

// decide confirms a step that can't be undone of the keys before it decides on it.
func (r *Reconciler) decide(ctx context.Context, seen *observed, now time.Time) (decision, error) {
	d, err := decide(*seen, r.Instance, now, r.Random)
	switch {
	case err != nil:
		return decision{}, err
	case d.inconclusive:
		return decision{}, errInconclusive
	case !d.needsConfirmation:
		return d, nil
	}
	confirmed, err := r.Tracker.Confirm(ctx, served(seen.record))
	if confirmed || err != nil {
		return d, err
	}
	seen.unconfirmed = true
	return decide(*seen, r.Instance, now, r.Random)
}
