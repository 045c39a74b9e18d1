// Package realm reconciles Realms. It generates and rotates their signing keys, and writes their
// records and status.
package realm

import (
	"io"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/issuerkeys"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=realms,verbs=get;list;watch
// +kubebuilder:rbac:groups=auth.realmkeeper.dev,resources=realms/status,verbs=patch

// concurrency is the number of Realms that are reconciled in parallel. Parallelism hides API server
// latency and the time that it takes to generate RSA keys.
const concurrency = 4

// Reconciler reconciles Realms. All fields are required.
type Reconciler struct {
	Client   client.Client
	Live     client.Reader // bypasses the cache
	Records  *recordstore.Store
	Tracker  *acknowledgement.Tracker
	Issuers  *issuerkeys.Fetcher
	Sealing  *sealing.Sealer
	Instance *config.Instance
	Metrics  *metrics.Metrics
	Events   *notice.Recorder
	Now      func() time.Time
	Random   io.Reader
}

// SetupWithManager adds the controller to the manager. It reconciles a Realm when its spec or
// record changes, when the record's state at the token servers changes, and when the keys of a trusted
// issuer change.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Realm{}, builder.WithPredicates(condition.Changed())).
		WatchesRawSource(r.Records.Source(record.KindRealm)).
		WatchesRawSource(r.Tracker.Source(acknowledgement.Realm)).
		WatchesRawSource(r.Issuers.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(apply.RetryConflicts(r))
}
