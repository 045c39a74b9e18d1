// Package apiclient reconciles ApiClients. It resolves the Realm, plans the client's secrets, and
// writes the record for the token servers, the credentials Secret, and the status.
package apiclient

import (
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
	"github.com/realmkeeper/realmkeeper/internal/operator/notice"
	"github.com/realmkeeper/realmkeeper/internal/operator/provided"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/trigger"
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
	Hasher     *provided.Hasher
	Namespaces *namespaces.Namespaces
	Instance   *config.Instance
	Metrics    *metrics.Metrics
	Events     *notice.Recorder
	Now        func() time.Time
	Random     io.Reader

	everything trigger.Source
}
