package realm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	k8sevents "k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	v1beta1ac "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
)

var errQuota = errors.New("quota")

// world is what one Reconcile finds. It records the requests to the API server and to the KMS plugin.
type world struct {
	realm, cachedRealm   *v1beta1.Realm // cachedRealm is the same if it is nil.
	record, cachedRecord *corev1.Secret
	mode                 sealing.Mode
	pluginFails          bool
	putFails             bool   // not because of a conflict
	joining              bool   // The Lease of the token server says according to the API server that it has loaded nothing.
	loaded               string // the version that the token server has loaded; empty if that is later than all records
	tracker              *acknowledgement.Tracker
	requests             []string
}

func (w *world) log(request string) { w.requests = append(w.requests, request) }

// Status, Encrypt, and Decrypt implement keyencryption.Plugin.
func (w *world) Status(context.Context) (string, error) { return "1", nil }

func (w *world) Encrypt(_ context.Context, plaintext []byte) (keyencryption.Wrapped, error) {
	w.log("encrypt a key")
	if w.pluginFails {
		return keyencryption.Wrapped{}, keyencryption.ErrUnavailable
	}
	return keyencryption.Wrapped{KeyID: "1", Ciphertext: plaintext}, nil
}

func (w *world) Decrypt(_ context.Context, wrapped keyencryption.Wrapped) ([]byte, error) {
	return wrapped.Ciphertext, nil
}

// cached is a client that reads from a cache and writes to the API server.
type cached struct {
	client.Client

	cache client.Reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return c.cache.Get(ctx, key, into, opts...)
}

// content describes a record.
func content(secret client.Object) string {
	body, err := record.ReadRealm(secret.(*corev1.Secret))
	if err != nil {
		return err.Error()
	}
	if body.Disabled {
		return states(body.Keys) + ", disabled"
	}
	return states(body.Keys)
}

// api returns a client for the API server.
func (w *world) api(scheme *runtime.Scheme, objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			kind, _, _ := strings.Cut(key.Name, "-")
			w.log("get " + kind)
			return c.Get(ctx, key, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			w.log("list Leases")
			return c.List(ctx, into, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			w.log("create: " + content(object))
			return c.Create(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if w.putFails {
				w.log("change: fails")
				return errQuota
			}
			err := c.Patch(ctx, object, patch, opts...)
			if apierrors.IsConflict(err) {
				w.log("change: conflict")
				return err
			}
			w.log("change: " + content(object))
			return err
		},
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, object runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			for _, c := range object.(*v1beta1ac.RealmApplyConfiguration).Status.Conditions {
				if *c.Type == string(v1beta1.ConditionProgrammed) {
					w.log("status: " + *c.Reason)
				}
			}
			return nil
		},
	}).Build()
}

// reconcile reconciles the Realm once.
func (w *world) reconcile(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme} {
		testkit.Do(t, add(scheme))
	}
	w.requests = nil
	lease := func(version string) *coordinationv1.Lease {
		l := (&heartbeat.Heartbeat{Server: "a", Version: version, Renewed: now}).Lease("system")
		l.CreationTimestamp = metav1.NewTime(now.Add(3 * time.Hour))
		return l
	}
	loaded := lease(cmp.Or(w.loaded, "5000"))
	loaded.UID = "1"
	objects := []client.Object{loaded}
	if w.joining {
		objects = []client.Object{lease("")}
	}
	if w.realm != nil {
		objects = append(objects, w.realm.DeepCopy())
	}
	if w.record != nil {
		objects = append(objects, w.record.DeepCopy())
	}
	api := w.api(scheme, objects...)
	inCache := w.cachedRealm
	if inCache == nil {
		inCache = w.realm
	}
	c := cached{api, fake.NewClientBuilder().WithScheme(scheme).WithObjects(inCache.DeepCopy()).Build()}
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Secret{}, 0, toolscache.Indexers{})
	records := testkit.Value(recordstore.New(informer, api, c, "system"))(t)
	if w.cachedRecord != nil {
		testkit.Do(t, informer.GetIndexer().Add(w.cachedRecord))
	}
	at := func() time.Time { return now.Add(3 * time.Hour) } // all keys have been published for long enough
	w.tracker = acknowledgement.NewTracker(api, "system", at)
	w.tracker.Handler().OnAdd(loaded, true)
	m := metrics.New(prometheus.NewRegistry())
	r := &Reconciler{
		Client: c, Live: api, Records: records, Tracker: w.tracker, Issuers: trustedissuers.New(instance(), m, at, func() float64 { return 0 }),
		Sealing:      &sealing.Sealer{Mode: w.mode, Encrypter: keyencryption.New(w), Now: at, Random: rand.Reader},
		Clients:      func(context.Context, string) ([]v1beta1.ApiClient, error) { return nil, nil },
		RolledBackAt: func() time.Time { return time.Time{} },
		Instance:     instance(), Metrics: m, Events: events.NewRecorder(&k8sevents.FakeRecorder{}), Now: at, Random: rand.Reader,
	}
	return r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "acme"}})
}

// version returns a copy of an object with a resource version.
func version[O client.Object](object O, version string) O {
	versioned := object.DeepCopyObject().(O)
	versioned.SetResourceVersion(version)
	return versioned
}

// What a decision lacks is read first, and a write follows that is based on it. The status comes last.
func TestOrder(t *testing.T) {
	plain := acme(func(*v1beta1.Realm) {})
	changed := func(generation int64, suspend bool, algorithm v1beta1.SigningAlgorithm) *v1beta1.Realm {
		return acme(func(r *v1beta1.Realm) {
			r.Generation, r.Spec.Suspend, r.Spec.Signing.Algorithm = generation, suspend, algorithm
		})
	}
	suspended, rotating := changed(4, true, ""), changed(4, false, v1beta1.SigningAlgorithmEdDSA)
	suspendedAndRotating := changed(4, true, v1beta1.SigningAlgorithmEdDSA)
	stored := func(realm *v1beta1.Realm, from *corev1.Secret, mode sealing.Mode) *corev1.Secret {
		d := decidedAt(t, observed{realm: realm, record: from, mode: mode, state: acknowledgement.Acknowledged}, now.Add(time.Hour))
		return version(written(t, realm, d), "10")
	}
	active := stored(plain, settled(t, plain, sealing.Off), sealing.Off)
	sealed := stored(plain, settled(t, plain, sealing.Encrypt), sealing.Encrypt)
	next := stored(rotating, stored(rotating, active, sealing.Off), sealing.Off)
	disabled := stored(suspended, active, sealing.Off)

	live := []string{"get realm", "get acme", "get beacon"}
	after := func(first []string, then ...string) []string { return append(slices.Clip(first), then...) }
	for name, test := range map[string]struct {
		world
		want      []string
		wantAfter time.Duration
		wantErr   error
	}{
		"new":                 {world: world{realm: plain}, want: after(live, "create: ES256 Pending", "status: Progressing"), wantAfter: time.Minute},
		"new, encrypted":      {world: world{realm: plain, mode: sealing.Encrypt}, want: after(live, "encrypt a key", "create: ES256 Pending", "status: Progressing"), wantAfter: time.Minute},
		"new, plugin fails":   {world: world{realm: plain, mode: sealing.Encrypt, pluginFails: true}, want: after(live, "encrypt a key", "status: KMSUnavailable"), wantAfter: sealing.Pause},
		"record isn't cached": {world: world{realm: plain, record: active}, want: after(live, "status: Ready")},
		"unchanged":           {world: world{realm: plain, record: active, cachedRecord: active}, want: []string{"status: Ready"}},
		"rotation":            {world: world{realm: rotating, record: active, cachedRecord: active}, want: []string{"change: ES256 Active, EdDSA Pending", "status: Ready"}},
		"step of a rotation":  {world: world{realm: rotating, record: next, cachedRecord: next}, want: []string{"list Leases", "change: ES256 Retiring, EdDSA Active", "status: Ready"}},
		"unconfirmed step":    {world: world{realm: rotating, record: next, cachedRecord: next, joining: true}, want: []string{"list Leases", "status: Ready"}, wantAfter: confirmDelay},
		"suspension during an unconfirmed step": {
			world: world{realm: suspendedAndRotating, record: next, cachedRecord: next, joining: true},
			want:  []string{"list Leases", "change: ES256 Active, EdDSA Pending, disabled", "status: Ready"}, wantAfter: confirmDelay,
		},
		"rotation, encrypted": {
			world: world{realm: changed(3, false, v1beta1.SigningAlgorithmEdDSA), record: sealed, cachedRecord: sealed, mode: sealing.Encrypt},
			want:  []string{"encrypt a key", "change: ES256 Active, EdDSA Pending", "status: Ready"},
		},
		"rotation, plugin fails": {
			world: world{realm: changed(3, false, v1beta1.SigningAlgorithmEdDSA), record: sealed, cachedRecord: sealed, mode: sealing.Encrypt, pluginFails: true},
			want:  []string{"encrypt a key", "status: Ready"}, wantAfter: sealing.Pause,
		},
		"suspension before a rotation, encrypted": {
			world: world{realm: suspendedAndRotating, record: sealed, cachedRecord: sealed, mode: sealing.Encrypt},
			want:  []string{"change: ES256 Active, disabled", "status: Ready"},
		},
		"suspension fails before a rotation, encrypted": {
			world: world{realm: suspendedAndRotating, record: sealed, cachedRecord: sealed, mode: sealing.Encrypt, putFails: true},
			want:  []string{"change: fails", "status: Progressing"}, wantErr: errQuota,
		},
		"cached Realm lags": {
			world: world{realm: suspended, cachedRealm: plain, record: disabled, cachedRecord: disabled},
			want:  after(live, "status: Ready"),
		},
		"cached record lags": {
			world: world{realm: suspended, record: version(active, "11"), cachedRecord: active},
			want:  after(append([]string{"change: conflict"}, live...), "change: ES256 Active, disabled", "status: Ready"),
		},
		"cached record lags before a rotation, encrypted": {
			world: world{realm: suspendedAndRotating, record: version(sealed, "11"), cachedRecord: sealed, mode: sealing.Encrypt},
			want:  after(append([]string{"change: conflict"}, live...), "change: ES256 Active, disabled", "status: Ready"),
		},
		"cached record lags before a step of a rotation": {
			world: world{realm: rotating, record: version(next, "11"), cachedRecord: active},
			want:  after(append([]string{"change: conflict"}, live...), "list Leases", "change: ES256 Retiring, EdDSA Active", "status: Ready"),
		},
		"API server is older":  {world: world{realm: plain, record: disabled, cachedRecord: disabled}, want: live, wantErr: errInconclusive},
		"deleted in between":   {world: world{cachedRealm: plain}, want: live[:2]},
		"recreated in between": {world: world{cachedRealm: plain, realm: acme(func(r *v1beta1.Realm) { r.UID = "other" })}, want: live[:2]},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := test.reconcile(t)
			testkit.Diff(t, "requests", test.want, test.requests)
			if !errors.Is(err, test.wantErr) {
				t.Errorf("error %v, want %v", err, test.wantErr)
			}
			if result.RequeueAfter != test.wantAfter && test.wantAfter != 0 {
				t.Errorf("reconciled after %s, want %s", result.RequeueAfter, test.wantAfter)
			}
		})
	}
}

// The Realm is reconciled when the token servers have loaded what was written, even if the caches still lag.
func TestWrittenRecordIsFollowed(t *testing.T) {
	realm := acme(func(*v1beta1.Realm) {})
	before := version(settled(t, realm, sealing.Off), "10")
	w := world{realm: acme(func(r *v1beta1.Realm) { r.Generation, r.Spec.Suspend = 4, true }), record: before, cachedRecord: before, loaded: "10"}
	_ = testkit.Value(w.reconcile(t))(t)
	testkit.Diff(t, "requests", []string{"change: ES256 Active, disabled", "status: Progressing"}, w.requests)
	q := workqueue.NewTypedRateLimitingQueue(queue.NewLimiter())
	defer q.ShutDown()
	testkit.Do(t, w.tracker.Source(acknowledgement.Realm).Start(t.Context(), q))
	w.tracker.Handler().OnAdd((&heartbeat.Heartbeat{Server: "a", Version: "11", Renewed: now}).Lease("system"), false)
	if q.Len() != 1 {
		t.Error("the Realm is not reconciled")
	}
}
