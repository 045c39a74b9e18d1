// Package apiclient reconciles ApiClients: it resolves the realm, keeps the client's
// secret and its verifiers, and writes record, consumer Secret and status.
package apiclient

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=apiclients,verbs=get;list;watch
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=apiclients/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// Of service accounts, which hold nothing secret, no more than the metadata is read.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch

// concurrency is how many ApiClients are reconciled at once. Nearly all of the time goes
// into waiting for the API server.
const concurrency = 16

// Reconciler reconciles ApiClients. All exported fields are required.
type Reconciler struct {
	Client    client.Client
	Live      client.Reader // asks the API server itself
	Accounts  cache.Cache   // the metadata of all service accounts
	Records   *recordstore.Store
	Authority *servingcert.AuthorityReader
	Tracker   *acknowledgement.Tracker
	Instance  *config.Instance
	Metrics   *metrics.Metrics
	Events    *notice.Recorder
	Now       func() time.Time
	Random    io.Reader

	// unclaimed are the secrets whose verifiers are recorded and that no consumer Secret
	// holds yet: until the token servers accept them, or while the Secret can't be written, because of
	// a quota, say, or an admission policy. Each try then hands out the same one, where another each
	// time would be another record for every token server to load. A crash forgets them, and others are made.
	unclaimed memory
	// seamless are the versions of records that token servers are yet to load, though no
	// workload notices.
	seamless memory
	// hashing lets one slow hash be made at a time: each takes a core and 19 MiB.
	hashing sync.Mutex
}

// SetupWithManager makes the manager run the reconciler: when the ApiClient's spec changes,
// when a Secret or record of it changes, when what it refers to changes, and when the token
// servers have come further with it.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := indexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing ApiClients: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.ApiClient{}, builder.WithPredicates(condition.Changed())).
		Owns(&corev1.Secret{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.clientsWith)).
		Watches(&v1alpha1.ApiClient{}, handler.EnqueueRequestsFromMapFunc(r.rivalsOf),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Realm{}, handler.EnqueueRequestsFromMapFunc(r.clientsOf), builder.WithPredicates(realmMatters())).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.clientsIn), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(r.accountSource()).
		WatchesRawSource(r.Records.Source(record.KindClient)).
		WatchesRawSource(r.Authority.Source(r.allClients)).
		WatchesRawSource(r.Tracker.Source(acknowledgement.Client)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(apply.RetryConflicts(r))
}
