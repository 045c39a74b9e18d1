package simulation

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	k8sevents "k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/realm"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// This file is the seam between the simulation and the product: it builds an operator and a token server
// from their parts, as package operator and the token server's main package do.

const recordsNamespace = "records"

// instance is the configuration. Certificates aren't managed, because nothing here depends on them.
func instance() *config.Instance {
	return &config.Instance{
		InstanceDomain: "example.com", ExternalPort: 443, SystemNamespace: "system", RecordsNamespace: recordsNamespace,
		Security: config.Security{DefaultTokenLifetime: metav1.Duration{Duration: time.Hour}, MaximumTokenLifetime: metav1.Duration{Duration: time.Hour}},
		Usage:    config.Usage{Resolution: metav1.Duration{Duration: time.Hour}},
		// A short lifetime of lists, so that indexes are released soon.
		TokenServer: config.TokenServer{MaxStaleness: metav1.Duration{Duration: 30 * time.Second}},
		Testing:     config.Testing{SpeedUp: 1},
	}
}

// operator is an operator process.
type operator struct {
	*process

	cache, records *informers
	tracker        *acknowledgement.Tracker
	controllers    map[acknowledgement.Kind]reconcile.Reconciler
	runnables      []manager.Runnable

	leads bool
	// due contains the objects to reconcile, with the time; running those that are being reconciled.
	due     map[item]time.Time
	running map[item]bool
}

// item is an object to reconcile.
type item struct {
	kind acknowledgement.Kind
	name types.NamespacedName
}

func (i item) String() string { return string(i.kind) + " " + i.name.Name }

// newOperator returns a running operator whose caches contain what the API server has. It doesn't lead.
func newOperator(p *process) *operator {
	a := p.world.api
	o := &operator{
		process: p, cache: newInformers(a), records: newInformers(a),
		controllers: map[acknowledgement.Kind]reconcile.Reconciler{}, due: map[item]time.Time{}, running: map[item]bool{},
	}
	ctx, now := p.ctx, p.now
	reader := &live{api: a, from: p}
	o.tracker = acknowledgement.NewTracker(reader, recordsNamespace, now)
	c := cachedClient{live: reader, cache: o.cache}
	mgr := fakeManager{operator: o, client: c, reader: reader}
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	records, err := recordstore.New(o.records.recordInformer(), reader, c, recordsNamespace)
	must(err)
	config := instance()
	uses := lastuse.New(recordsNamespace, time.Hour, now, func(metrics.RejectionReason) {})
	lost := func(context.Context, client.Client, time.Time) error { return nil } // uses are not modeled
	must(o.tracker.Watch(ctx, mgr, "system", lost))
	events := events.NewRecorder(&k8sevents.FakeRecorder{})
	o.controllers[acknowledgement.Realm] = &realm.Reconciler{
		Client: c, Live: reader, Records: records, Tracker: o.tracker, Issuers: trustedissuers.New(config, m, now, func() float64 { return 0 }),
		Clients:      func(context.Context, string) ([]v1beta1.ApiClient, error) { return nil, nil }, // The number of clients is not modeled.
		RolledBackAt: func() time.Time { return p.world.rolledBack },
		Sealing:      &sealing.Sealer{Mode: sealing.Off}, Instance: config, Metrics: m, Events: events, Now: now, Random: p.world.random,
	}
	must(o.cache.IndexField(ctx, &corev1.Secret{}, "owner", ownerOf))
	o.controllers[acknowledgement.Client] = &apiclient.Reconciler{
		Client: c, Live: reader, Accounts: o.cache, Records: records, Authority: authority.NewReader(o.cache, reader, "system"), Tracker: o.tracker, Usage: uses,
		Hasher: providedsecrets.NewHasher(reader, p.world.random), Namespaces: namespaces.New(o.cache, reader, nil, time.Minute),
		Instance: config, Metrics: m, Events: events, Now: now, Random: fewIndexes{p.world.random},
	}
	o.start()
	o.run(func(r manager.Runnable) bool { return !onlyLeader(r) })
	return o
}

// run starts the selected runnables.
func (o *operator) run(selected func(manager.Runnable) bool) {
	for _, r := range o.runnables {
		if selected(r) {
			go func() { _ = r.Start(o.ctx) }()
		}
	}
}

// onlyLeader reports whether only the leader runs a runnable.
func onlyLeader(r manager.Runnable) bool {
	elected, ok := r.(manager.LeaderElectionRunnable)
	return !ok || elected.NeedLeaderElection()
}

// ownerOf is the index of package apiclient.
func ownerOf(object client.Object) []string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Name == object.GetName() {
		return nil
	}
	return []string{string(owner.UID)}
}

// start fills the caches.
func (o *operator) start() {
	for kind := range o.controllers {
		must(o.tracker.Source(kind).Start(o.ctx, queue{operator: o, kind: kind}))
	}
	o.cache.changed, o.records.changed = o.enqueue, o.enqueueOwner
	generated, err := labels.Parse(v1beta1.ClientSecretLabel + "=" + v1beta1.ClientSecretGenerated)
	must(err)
	heartbeats, err := labels.Parse(heartbeat.Label)
	must(err)
	core := corev1.SchemeGroupVersion
	o.cache.watch(o.process, "Namespaces", core.WithKind("Namespace"), memory.Selection{})
	o.cache.watch(o.process, "Realms", v1beta1.GroupVersion.WithKind("Realm"), memory.Selection{})
	o.cache.watch(o.process, "ApiClients", v1beta1.GroupVersion.WithKind("ApiClient"), memory.Selection{})
	o.cache.watch(o.process, "credentials", core.WithKind("Secret"), memory.Selection{Labels: generated})
	o.cache.watch(o.process, "Leases", coordinationv1.SchemeGroupVersion.WithKind("Lease"), memory.Selection{Namespace: recordsNamespace, Labels: heartbeats})
	o.records.watch(o.process, "records", core.WithKind("Secret"), memory.Selection{Namespace: recordsNamespace, Labels: record.Selector()})
}

// lead makes the operator the leader. It reconciles everything, as its controllers do when they start.
func (o *operator) lead() {
	o.leads = true
	o.run(onlyLeader)
}

// enqueue requests what a changed object requires, as the watches of the controllers do.
func (o *operator) enqueue(before, after client.Object) {
	object := after
	if object == nil {
		object = before
	}
	update := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
	unchanged := before != nil && after != nil && !condition.Changed().Update(update)
	switch object := object.(type) {
	case *v1beta1.Realm:
		if !unchanged {
			o.add(item{acknowledgement.Realm, client.ObjectKeyFromObject(object)})
			o.addClients()
		}
	case *v1beta1.ApiClient:
		if !unchanged {
			o.add(item{acknowledgement.Client, client.ObjectKeyFromObject(object)})
		}
	case *corev1.Namespace:
		o.addClients()
	case *corev1.Secret:
		if owner := metav1.GetControllerOf(object); owner != nil {
			o.add(item{acknowledgement.Client, types.NamespacedName{Namespace: object.Namespace, Name: owner.Name}})
		}
	}
}

func (o *operator) addClients() {
	for key := range o.cache.objects[v1beta1.GroupVersion.WithKind("ApiClient")] {
		o.add(item{acknowledgement.Client, key})
	}
}

// enqueueOwner requests the owner of a changed record.
func (o *operator) enqueueOwner(before, after client.Object) {
	object := after
	if object == nil {
		object = before
	}
	secret := object.(*corev1.Secret)
	kind := acknowledgement.Client
	if record.KindOf(secret) == record.KindRealm {
		kind = acknowledgement.Realm
	}
	if record.KindOf(secret) != "" {
		o.add(item{kind, record.OwnerName(secret)})
	}
}

func (o *operator) add(i item) { o.due[i] = time.Now() }

// queue receives the requests of the tracker.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	operator *operator
	kind     acknowledgement.Kind
}

func (q queue) Add(r reconcile.Request) { q.operator.add(item{q.kind, r.NamespacedName}) }

// reconcile starts to reconcile an object, in a goroutine that stops at each request.
func (o *operator) reconcile(i item) {
	delete(o.due, i)
	o.running[i] = true
	go func() {
		result, err := o.controllers[i.kind].Reconcile(o.ctx, reconcile.Request{NamespacedName: i.name})
		o.api().mu.Lock()
		defer o.api().mu.Unlock()
		delete(o.running, i)
		if o.dead {
			return
		}
		retry := result.RequeueAfter
		if err != nil {
			retry = 10 * time.Millisecond
			o.world.note("  %s: %s is retried: %v", o.name, i, oneLine(err))
		}
		if _, again := o.due[i]; retry > 0 && !again {
			o.due[i] = time.Now().Add(retry)
		}
	}()
}

// acknowledged reports whether the operator considers a version of a record as acknowledged.
func (o *operator) acknowledged(name, version string) bool {
	probe := reconcile.Request{NamespacedName: types.NamespacedName{Name: "invariant"}}
	defer o.tracker.Forget(acknowledgement.Client, probe)
	return o.tracker.Follow(acknowledgement.Client, probe, acknowledgement.Record{Name: name, Version: version}) == acknowledgement.Acknowledged
}

// memory returns what the operator remembers outside of its caches.
func (o *operator) memory(w io.Writer) {
	for _, kind := range slices.Sorted(keysOf(o.controllers)) {
		remembered(w, reflect.ValueOf(o.controllers[kind]).Elem(), false)
	}
	o.tracker.Servers() // It locks the tracker, so that the race detector knows the order.
	remembered(w, reflect.ValueOf(o.tracker).Elem(), false)
	o.tracker.Servers()
}

// fakeManager is the part of a manager that the product uses to watch and to run what only the leader runs.
type fakeManager struct {
	ctrl.Manager

	operator *operator
	client   client.Client
	reader   client.Reader
}

func (m fakeManager) GetCache() cache.Cache       { return m.operator.cache }
func (m fakeManager) GetClient() client.Client    { return m.client }
func (m fakeManager) GetAPIReader() client.Reader { return m.reader }

func (m fakeManager) Add(r manager.Runnable) error {
	m.operator.runnables = append(m.operator.runnables, r)
	return nil
}

// server is a token server process.
type server struct {
	*process

	registry *registry.Registry
	saved    string // the directory of its saved records
	// confirmed returns the time of the state of the records.
	confirmed func() time.Time
	stopped   chan struct{}
	// leaving means that the server was asked to stop.
	leaving bool
	// old means that the server can't read the records that are written from now on, because its program is
	// older than that of the operator.
	old bool
	// previous means that the server's program doesn't know the restriction of restrict.
	previous bool
	// delivered is the latest revision that its watch has delivered, and reported that in its Lease.
	delivered, reported int64
	// joined is the revision of its first report.
	joined int64
	// renewed is when its Lease was last written, or could have been. lost means that this was too long ago.
	renewed time.Time
	lost    bool
}

// newServer returns a running token server. Its container keeps the saved records between restarts.
func newServer(p *process, savedRecords string) *server {
	s := &server{process: p, registry: registry.New(), saved: savedRecords, stopped: make(chan struct{}), renewed: time.Now()}
	p.server = s
	f := feed.New(feed.Options{
		Client: newClient(&live{api: p.world.api, from: p}), Namespace: recordsNamespace, Server: podName(p.name), Registry: s.registry,
		SnapshotDir: savedRecords, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: p.now,
	})
	s.confirmed = f.Confirmed
	go func() {
		defer close(s.stopped)
		f.Run(p.ctx)
	}()
	return s
}

// podName returns the name of the Pod of a process.
func podName(process string) string { return strings.ReplaceAll(process, " ", "-") }

// answers reports whether the server answers the requests of clients.
func (s *server) answers() bool { return !s.dead && !s.leaving && s.registry.Loaded() }

// readable returns a record as the server reads it: an old server finds a schema that it doesn't know, and one with the
// operator's program knows every restriction.
func (p *process) readable(secret *corev1.Secret) *corev1.Secret {
	switch s := p.server; {
	case s.old:
		secret.Data = map[string][]byte{record.DataKey: []byte(fmt.Sprintf(`{"schemaVersion":%d}`, record.SchemaVersion+1))}
	case !s.previous && bytes.Contains(secret.Data[record.DataKey], []byte(newRestriction)):
		c, err := record.ReadClient(secret)
		must(err)
		c.Restrictions = nil
		known, err := recordsecret.ForClient(recordsNamespace, c)
		must(err)
		secret.Data = known.Data
	}
	return secret
}

// newRestriction is the name of a restriction that only the operator's program knows.
const newRestriction = "new-restriction"

// restrict adds the new restriction to the record of a client.
func (w *world) restrict(name string) {
	w.rewriteRecords(record.KindClient, func(secret *corev1.Secret) *corev1ac.SecretApplyConfiguration {
		c, err := record.ReadClient(secret)
		must(err)
		if c.Name != name {
			return nil
		}
		c.Restrictions = record.Restrictions{newRestriction: []byte("true")}
		applied, err := recordsecret.ForClient(recordsNamespace, c)
		must(err)
		return applied
	})
}

// rewriteRecords changes the records of a kind for which change returns something.
func (w *world) rewriteRecords(kind record.Kind, change func(*corev1.Secret) *corev1ac.SecretApplyConfiguration) {
	records, _ := w.api.store.List(secretResource, memory.Selection{Namespace: recordsNamespace})
	for _, object := range records {
		secret := asSecret(object)
		if record.KindOf(secret) != kind {
			continue
		}
		if applied := change(secret); applied != nil {
			changed := object.DeepCopy()
			must(unstructured.SetNestedField(changed.Object, base64.StdEncoding.EncodeToString(applied.Data[record.DataKey]), "data", record.DataKey))
			_, err := w.api.store.Update(context.Background(), changed, memory.WriteOptions{Manager: v1beta1.FieldOwner})
			must(err)
		}
	}
}

// accepts reports whether the server accepts a client secret.
func (s *server) accepts(realm, clientID, value string) bool {
	r := s.registry.Realm(realm)
	if r == nil || r.Disabled {
		return false
	}
	c := r.Client(clientID)
	return c != nil && c.Usable(s.now()) && s.verifies(c, value)
}
