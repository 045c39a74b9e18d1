// Package apiclient reconciles ApiClients. It resolves the Realm, plans the client's secrets, and
// writes the record for the token servers, the credentials Secret, and the status.
package apiclient

import (
	"cmp"
	"context"
	"errors"
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
// can be granted in each namespace instead of the whole cluster. Those for Secrets can be omitted. The
// controller reads only the metadata of service accounts.
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=apiclients,verbs=get;list;watch,roleName=realmkeeper-operator-clients
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=apiclients/status,verbs=patch,roleName=realmkeeper-operator-clients
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch,roleName=realmkeeper-operator-clients
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete,roleName=realmkeeper-operator-credentials
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
		WatchesRawSource(r.Authority.Source(r.allClients, r.bundleSpread())).
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

// Reconcile reconciles one ApiClient. It decides from the caches first. If they turn out to lag, because
// the record implements something newer, a write conflicts, or a step must not depend on a cache, it
// decides again from the API server.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	served, err := r.Namespaces.Serves(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !served {
		return r.withdraw(ctx, req)
	}
	result, err := r.reconcile(ctx, req, false)
	if errors.Is(err, errInconclusive) || apply.IsStale(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("Reconciling with the API server instead of the cache", "reason", err.Error())
		return r.reconcile(ctx, req, true)
	}
	return result, err
}

// errInconclusive means that what was read may be older than the client's record or credentials Secret. If
// all of it was read from the API server, it has changed between the reads, and the retry decides.
var errInconclusive = errors.New("the objects that were read may be out of date")

// maxSteps limits the steps of a client's secret in one reconcile. A revocation takes the most: drop the
// verifiers, write a value, and add its verifier. If the value can't be written, another step plans without
// it.
const maxSteps = 4

// reconcile reads, decides, and writes, until no step of the client's secret follows: see package secrets. It
// also decides again when it turns out that the credentials Secret can't be written, because everything else
// must then go on without it. It writes the status even if another write fails.
func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request, live bool) (ctrl.Result, error) {
	seen, err := r.observe(ctx, req, live)
	if err != nil || seen.client == nil {
		return ctrl.Result{RequeueAfter: until(seen.orphanRelease, r.Now())}, err
	}
	var now time.Time
	var decided decision
	var done applied
	var hashErr, applyErr error
	for range maxSteps {
		seen.unconfirmed = false
		now = r.Now() // An overlap begins after the write that replaces the secret.
		if decided, hashErr, err = r.decideConfirmed(ctx, &seen, now); err != nil {
			return ctrl.Result{}, err
		}
		if decided.inconclusive {
			return ctrl.Result{}, errInconclusive
		}
		unwritable := seen.credentialsErr != nil
		if done, applyErr = r.apply(ctx, req, &seen, decided); apply.IsStale(applyErr) {
			return ctrl.Result{}, applyErr // The status must not report a decision that is based on a stale read.
		}
		r.measure(decided.plan.Step, cmp.Or(applyErr, seen.credentialsErr))
		mustReplan := !unwritable && seen.credentialsErr != nil
		if applyErr != nil || !decided.plan.Unfinished && !mustReplan {
			break
		}
	}
	applyErr = errors.Join(applyErr, seen.credentialsErr)
	if wait := firstStatusDelay(seen.client, done, now); wait > 0 && applyErr == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	statusErr := r.writeStatus(ctx, &seen, decided, done, now)
	return ctrl.Result{RequeueAfter: requeueAfter(&seen, decided, now)}, errors.Join(hashErr, applyErr, statusErr)
}

// decideConfirmed hashes a provided secret and confirms an irreversible step before it decides on them.
func (r *Reconciler) decideConfirmed(ctx context.Context, seen *observed, now time.Time) (d decision, hashErr, err error) {
	redecide := func() error {
		if d, err = decide(seen, now, r.Random); err != nil {
			return fmt.Errorf("planning the secrets of ApiClient %s: %w", client.ObjectKeyFromObject(seen.client), err)
		}
		return nil
	}
	if err := redecide(); err != nil {
		return d, nil, err
	}
	if d.hash && !d.inconclusive {
		if hashErr = r.hash(ctx, seen); !seen.unhashed {
			if err := redecide(); err != nil {
				return d, nil, err
			}
		}
	}
	if d.plan.Step.NeedsConfirmation() {
		confirmed, err := r.Tracker.Confirm(ctx, seen.served(seen.recordSecret.ResourceVersion)...)
		if err != nil {
			return d, nil, err
		}
		if !confirmed {
			seen.unconfirmed = true // No step is planned that a token server could hold up.
			return d, hashErr, redecide()
		}
	}
	return d, hashErr, nil
}
