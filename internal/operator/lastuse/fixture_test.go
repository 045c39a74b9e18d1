package lastuse_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

const (
	namespace  = "records"
	server     = "realmkeeper-token-server-0"
	resolution = time.Hour
)

var start = time.Date(2026, 3, 1, 12, 34, 56, 0, time.UTC)

// fixture is a store with the API server's objects. The test decides when the store sees a change.
type fixture struct {
	t        *testing.T
	store    *lastuse.Store
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
	now      time.Time
	api      *objects
	rejected []metrics.RejectionReason
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, now: start, api: &objects{configMaps: map[string]*corev1.ConfigMap{}}}
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(f.queue.ShutDown)
	f.restart()
	return f
}

// restart replaces the store with a new one that hasn't seen any objects.
func (f *fixture) restart() {
	f.t.Helper()
	f.rejected = nil
	f.store = lastuse.New(namespace, resolution, func() time.Time { return f.now }, func(r metrics.RejectionReason) { f.rejected = append(f.rejected, r) })
	testkit.Do(f.t, f.store.Grants.Start(f.t.Context(), f.queue))
}

// sync shows all ConfigMaps to the store.
func (f *fixture) sync() {
	for _, object := range f.api.configMaps {
		f.store.Observe(object.DeepCopy())
	}
}

// flush runs one pass and returns the names of the clients that it enqueues, sorted.
func (f *fixture) flush() []string {
	f.t.Helper()
	f.store.Flush(f.t.Context(), f.api)
	var names []string
	for range f.queue.Len() {
		request, _ := f.queue.Get()
		f.queue.Done(request)
		names = append(names, request.Name)
	}
	slices.Sort(names)
	return names
}

// publish writes a report as a token server does, and shows it to the store.
func (f *fixture) publish(r *usage.Report) *corev1.ConfigMap {
	f.t.Helper()
	data := testkit.Value(r.Encode())(f.t)
	object := usage.ConfigMap(namespace, r.Server, 0, data)
	f.api.put(object)
	f.store.Observe(object)
	return object
}

// heartbeat shows the Lease of a server to the store. The server's clock is off by skew.
func (f *fixture) heartbeat(server string, until time.Time, skew time.Duration) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: heartbeat.LeaseName(server),
			Labels:      map[string]string{heartbeat.Label: heartbeat.LabelValue},
			Annotations: map[string]string{heartbeat.LoadedAnnotation: "1", heartbeat.ResolutionAnnotation: resolution.String()},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(server), RenewTime: new(metav1.NewMicroTime(f.now.Add(skew)))},
	}
	if !until.IsZero() {
		lease.Annotations[heartbeat.UsageAnnotation] = until.Format(time.RFC3339Nano)
	}
	f.store.Observe(lease)
	return lease
}

// objects is an API server for ConfigMaps that checks preconditions.
type objects struct {
	client.Client
	configMaps map[string]*corev1.ConfigMap
	version    int
	writes     []string
	fail       error
}

func (o *objects) put(object *corev1.ConfigMap) {
	o.version++
	object.UID, object.ResourceVersion = types.UID(object.Name), strconv.Itoa(o.version)
	o.configMaps[object.Name] = object.DeepCopy()
}

var configMaps = schema.GroupResource{Resource: "configmaps"}

func (o *objects) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	current := o.configMaps[object.GetName()]
	switch pre := options.Preconditions; {
	case o.fail != nil:
		return o.fail
	case current == nil:
		return apierrors.NewNotFound(configMaps, object.GetName())
	case *pre.UID != current.UID || *pre.ResourceVersion != current.ResourceVersion:
		return apierrors.NewConflict(configMaps, object.GetName(), nil)
	}
	delete(o.configMaps, object.GetName())
	o.writes = append(o.writes, "delete "+object.GetName())
	return nil
}

func (o *objects) Apply(_ context.Context, desired runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	object, _ := desired.(*corev1ac.ConfigMapApplyConfiguration)
	current := o.configMaps[*object.Name]
	switch {
	case o.fail != nil:
		return o.fail
	case object.ResourceVersion != nil && (current == nil || *object.ResourceVersion != current.ResourceVersion):
		return apierrors.NewConflict(configMaps, *object.Name, nil)
	}
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: *object.Namespace, Name: *object.Name, Labels: object.Labels}, Data: object.Data}
	o.put(written)
	object.WithResourceVersion(written.ResourceVersion)
	o.writes = append(o.writes, "apply "+*object.Name)
	return nil
}

// lost returns the persisted time before which uses may be missing.
func (o *objects) lost(t *testing.T) time.Time {
	t.Helper()
	object := o.configMaps[lastuse.StateName]
	if object == nil {
		t.Fatal("the state was not persisted")
	}
	return testkit.Value(time.Parse(time.RFC3339Nano, object.Data["lost"]))(t)
}

// newClient returns an ApiClient with a valid secret.
func newClient(name, secret string) *v1beta1.ApiClient {
	return &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Status:     v1beta1.ApiClientStatus{Credentials: []v1beta1.CredentialStatus{secretUsed(secret, 0)}},
	}
}

// write writes the status as the reconciler does, and shows the new status to the store.
func (f *fixture) write(c *v1beta1.ApiClient) *v1beta1.ApiClient {
	written := c.DeepCopy()
	lastuse.Merge(&written.Status, f.store.Uses(c.UID))
	f.store.Written(c.UID)
	f.store.Observe(written)
	return written
}

func secret(id string) usage.Credential { return usage.Credential{Type: usage.Secret, ID: id} }

// report returns a report with one use.
func report(server string, c *v1beta1.ApiClient, credential usage.Credential, at time.Time) *usage.Report {
	r := &usage.Report{Server: server}
	r.Add(c.UID, credential, usage.Truncate(at, resolution))
	return r
}
