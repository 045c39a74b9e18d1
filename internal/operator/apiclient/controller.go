// Package apiclient reconciles ApiClients. It resolves the Realm, plans the client's secrets, and
// writes the record for the token servers, the credentials Secret, and the status.
package apiclient

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// The permissions in the namespaces that the operator serves have roles of their own, because these
// can be granted in each namespace instead of the whole cluster. Those for Secrets can be omitted.
//
// What clients specify, and their status.
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=apiclients,verbs=get;list;watch,roleName=realmkeeper-operator-clients
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=apiclients/status,verbs=patch,roleName=realmkeeper-operator-clients
// Clients name service accounts. The controller reads only their metadata.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch,roleName=realmkeeper-operator-clients
// Credentials Secrets, and provided client secrets. RBAC can't select them by label, but an admission policy
// limits the writes.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete,roleName=realmkeeper-operator-credentials
// Grants select namespaces by label.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch,roleName=realmkeeper-operator-namespaces

// concurrency is the number of ApiClients reconciled in parallel. A reconcile spends nearly all of
// its time waiting for the API server.
const concurrency = 32

// Reconciler reconciles ApiClients. All exported fields are required.
type Reconciler struct {
	Client     client.Client
	Live       client.Reader // reads from the API server instead of the cache
	Accounts   cache.Cache   // metadata of all service accounts
	Records    *recordstore.Store
	Authority  *authority.Reader
	Tracker    *acknowledgement.Tracker
	Usage      *lastuse.Store
	Hasher     *providedsecrets.Hasher
	Namespaces *namespaces.Namespaces
	Instance   *config.Instance
	Metrics    *metrics.Metrics
	Events     *events.Recorder
	Now        func() time.Time
	Random     io.Reader

	everything queue.Source
}

// SetupWithManager registers the controller. It reconciles an ApiClient when its spec, its Secrets,
// its record, or an object that it refers to changes, and when token servers acknowledge its
// record.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := indexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing ApiClients: %w", err)
	}
	watches := ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.ApiClient{}, builder.WithPredicates(condition.Changed())).
		Watches(&v1beta1.Realm{}, handler.EnqueueRequestsFromMapFunc(r.clientsOfRealm), builder.WithPredicates(realmMatters(), afterStart)).
		WatchesRawSource(r.Namespaces.Source(r.clientsOfNamespace)).
		WatchesRawSource(r.accountSource()).
		WatchesRawSource(r.Records.Source(r.clientsWaiting, record.KindClient, record.KindSubject, record.KindIndex)).
		WatchesRawSource(r.Authority.Source(r.allClients)).
		WatchesRawSource(r.Tracker.Source(acknowledgement.Client)).
		WatchesRawSource(&r.Usage.Grants).
		WatchesRawSource(&r.everything)
	if r.Instance.ManagesCredentialsSecrets() {
		if err := indexSecrets(ctx, mgr.GetFieldIndexer()); err != nil {
			return fmt.Errorf("indexing Secrets: %w", err)
		}
		changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{}, afterStart)
		watches.Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.clientsOfSecret), changed)
	}
	return watches.WithOptions(controller.Options{
		MaxConcurrentReconciles: concurrency, RateLimiter: queue.NewLimiter(), NewQueue: r.newQueue,
	}).Complete(apply.RetryConflicts(r))
}

// maxRounds limits how often one reconcile decides. Nearly all decide once or twice. The most that is needed is
// for a revocation: drop the verifiers, write a value, add its verifier, retire the index, and, if the value
// can't be written, go on without it, with something that the decision lacks before each.
const maxRounds = 16

// Reconcile reconciles one ApiClient: it reads, decides, and writes, until the decision doesn't continue, and then
// reports in the status what was done. It reads caches first. decide says what else it needs, which can be that
// everything is read from the API server.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	served, err := r.Namespaces.Serves(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !served {
		return r.withdraw(ctx, req)
	}
	seen, err := r.observe(ctx, req, false)
	for range maxRounds {
		if err != nil || seen.client == nil {
			return ctrl.Result{RequeueAfter: queue.After(seen.orphanRelease, r.Now())}, err
		}
		r.follow(req, &seen)
		d, decideErr := decide(&seen, r.Now(), r.Random)
		if decideErr != nil {
			return ctrl.Result{}, fmt.Errorf("planning the secrets of ApiClient %s: %w", req, decideErr)
		}
		if d.lacks != 0 {
			seen, err = r.fetch(ctx, req, seen, &d)
			continue
		}
		err = r.write(ctx, &seen, &d)
		if apply.IsStale(err) { // The status must not report a decision that is based on a stale read.
			seen, err = r.readAgain(ctx, req, seen, err)
			continue
		}
		if err == nil && d.continues(&seen) {
			seen.nextStep()
			continue
		}
		r.follow(req, &seen)
		result, reportErr := r.report(ctx, &seen, &d, err)
		if seen.live || !apply.IsStale(reportErr) {
			return result, reportErr
		}
		seen, err = r.readAgain(ctx, req, seen, reportErr)
	}
	return ctrl.Result{}, cmp.Or(err, errUnsettled)
}

// errUnsettled means that other decisions followed until the limit. The retry continues.
var errUnsettled = fmt.Errorf("the client is not settled after %d decisions", maxRounds)
