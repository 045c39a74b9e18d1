package apiclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	k8sevents "k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
)

// server is an API server, or the cache of one. It contains objects, fails requests, and lists those that it got.
type server struct {
	client.Client

	objects []client.Object
	fails   map[string]error // by verb and name
	read    []string         // types of objects, except for metadata
	wrote   []string         // verbs and names
}

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	metadata, onlyMetadata := into.(*metav1.PartialObjectMetadata)
	if !onlyMetadata {
		s.read = append(s.read, strings.TrimPrefix(fmt.Sprintf("%T", into), "*"))
	}
	for _, o := range s.objects {
		secret, isSecret := o.(*corev1.Secret)
		switch {
		case client.ObjectKeyFromObject(o) != key:
		case onlyMetadata && isSecret:
			metadata.ObjectMeta = secret.ObjectMeta
			return nil
		case reflect.TypeOf(o) == reflect.TypeOf(into):
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (s *server) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	for _, object := range s.objects {
		lease, isLease := object.(*coordinationv1.Lease)
		if list, listsLeases := into.(*coordinationv1.LeaseList); isLease && listsLeases {
			list.Items = append(list.Items, *lease)
		}
		secret, isSecret := object.(*corev1.Secret)
		if list, listsSecrets := into.(*corev1.SecretList); isSecret && listsSecrets && o.LabelSelector != nil && o.LabelSelector.Matches(labels.Set(secret.Labels)) {
			list.Items = append(list.Items, *secret)
		}
	}
	return s.fails["LIST"]
}

func (s *server) write(verb string, o client.Object) error {
	s.wrote = append(s.wrote, verb+" "+o.GetName())
	return s.fails[verb+" "+o.GetName()]
}

func (s *server) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return s.write("POST", o)
}

func (s *server) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(o)
	for _, known := range s.objects {
		if secret, ok := known.(*corev1.Secret); ok && client.ObjectKeyFromObject(known) == client.ObjectKeyFromObject(o) {
			secret.DeepCopyInto(o.(*corev1.Secret))
		}
	}
	if err := errors.Join(err, json.Unmarshal(data, o)); err != nil {
		return err
	}
	o.SetResourceVersion("3")
	return s.write("PATCH", o)
}

func (s *server) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	if p := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
		return errUnconditional
	}
	return s.write("DELETE", o)
}

func (s *server) Status() client.SubResourceWriter { return statuses{server: s} }

// statuses writes statuses.
type statuses struct {
	client.SubResourceWriter

	server *server
}

func (s statuses) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return s.server.write("STATUS", &v1beta1.ApiClient{})
}

// serverCache is a server as a cache.
type serverCache struct {
	cache.Cache

	server *server
}

func (c serverCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return c.server.Get(ctx, key, into, options...)
}

var (
	errUnconditional = errors.New("the request does not depend on what was read")
	errForbidden     = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("quota"))
	errConflict      = apierrors.NewConflict(schema.GroupResource{}, "", errors.New("modified"))
	errNotFound      = apierrors.NewNotFound(schema.GroupResource{}, "")
)

// newReconciler returns one with a cache, which also contains records, and an API server.
func newReconciler(t *testing.T, cached, live *server, records ...*corev1.Secret) *Reconciler {
	t.Helper()
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Secret{}, 0, toolscache.Indexers{})
	store := testkit.Value(recordstore.New(informer, live, live, "records"))(t)
	for _, secret := range records {
		testkit.Do(t, informer.GetIndexer().Add(secret))
	}
	in := instance()
	in.TLS.Managed = nil
	return &Reconciler{
		Client: cached, Live: live, Accounts: serverCache{server: cached}, Records: store, Namespaces: namespaces.New(serverCache{server: cached}, live, nil, time.Minute),
		Tracker: acknowledgement.NewTracker(live, "records", func() time.Time { return now }), Events: events.NewRecorder(&k8sevents.FakeRecorder{}),
		Instance: in, Metrics: metrics.New(prometheus.NewRegistry()), Now: func() time.Time { return now }, Random: rand.Reader,
		Usage: lastuse.New("records", time.Hour, func() time.Time { return now }, func(metrics.RejectionReason) {}), Hasher: providedsecrets.NewHasher(live, rand.Reader),
	}
}

// An error stops the writes that wait for it. That of the credentials Secret, which tenants can cause, stops nothing,
// unless the Secret has changed, so that the decision is based on something old. Only what was written is reported.
func TestErrorsOfWrites(t *testing.T) {
	const secret, recorded, old = "POST billing", "POST " + clientRecord, "DELETE old"
	for name, test := range map[string]struct {
		fails       map[string]error
		want        []string
		wantWritten int
		wantErr     error
		wantSecret  error // of the Secret
	}{
		"no error":                         {nil, []string{secret, recorded, old}, 3, nil, nil},
		"the Secret can't be written":      {map[string]error{secret: errForbidden}, []string{secret, recorded, old}, 2, nil, errForbidden},
		"the Secret has changed":           {map[string]error{secret: errConflict}, []string{secret}, 0, errConflict, nil},
		"the record can't be written":      {map[string]error{recorded: errForbidden}, []string{secret, recorded}, 1, errForbidden, nil},
		"an obsolete Secret was deleted":   {map[string]error{old: errNotFound}, []string{secret, recorded, old}, 3, nil, nil},
		"an obsolete Secret has changed":   {map[string]error{old: errConflict}, []string{secret, recorded, old}, 2, errConflict, nil},
		"neither Secret nor record can be": {map[string]error{secret: errForbidden, recorded: errConflict}, []string{secret, recorded}, 0, errConflict, errForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe()
			d := decided(t, &seen, now)
			written := decided(t, new(reconciled(t, observe())), now)
			d.writes = []write{putCredentials{d.credentials}, putRecord{written.desired}, deleteCredentials{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "old"}}}}
			s := &server{fails: test.fails}
			err := newReconciler(t, s, s).write(t.Context(), &seen, &d)
			if !errors.Is(err, test.wantErr) || !errors.Is(seen.credentialsErr, test.wantSecret) || len(d.written) != test.wantWritten {
				t.Errorf("error %v, of the Secret %v, %d written; want %v, %v, %d", err, seen.credentialsErr, len(d.written), test.wantErr, test.wantSecret, test.wantWritten)
			}
			if apply.IsStale(err) != errors.Is(test.wantErr, errConflict) {
				t.Errorf("error %v is stale: %t", err, apply.IsStale(err))
			}
			testkit.Diff(t, "writes", test.want, s.wrote)
		})
	}
}

// What happens to the client's other indexes leaves the one in its record as it is.
func TestOtherIndexesLeaveTheRecord(t *testing.T) {
	for name, other := range map[string]struct {
		retiredAt time.Time
		write     func(record.Index) write
	}{
		"retired":  {time.Time{}, func(i record.Index) write { return retireIndex{i} }},
		"released": {now.Add(-2 * time.Hour), func(i record.Index) write { return releaseIndex{i.Index} }},
	} {
		t.Run(name, func(t *testing.T) {
			seen := reconciled(t, observe())
			withLists(&seen)
			former := record.Index{StatusIndex: record.StatusIndex{Index: 7}, Serial: 1, RetiredAt: other.retiredAt}
			holdingIndex(t, &seen, former)
			holdingIndex(t, &seen, record.Index{StatusIndex: record.StatusIndex{Index: 9, ValidAfter: now}, Serial: 2}) // A stopped operator has acquired it.
			seen.index.Current, seen.index.Serial, seen.index.ValidAfter = &former.StatusIndex, 1, now
			former = seen.index.Held[0]
			api := &server{}
			r := newReconciler(t, api, api)
			plan, body := statusindex.Make(seen.index), seen.recorded
			body.StatusIndex, body.IndexSerial = plan.Current, plan.Serial
			testkit.Do(t, r.perform(t.Context(), &seen, putRecord{&body}))
			testkit.Do(t, r.perform(t.Context(), &seen, other.write(former)))
			if seen.recorded.StatusIndex.Index != 9 || seen.index.Current.Index != 9 {
				t.Errorf("the record has index %d, and the next decision is based on index %d, want 9", seen.recorded.StatusIndex.Index, seen.index.Current.Index)
			}
		})
	}
}

// After a write, the observed state is what was written.
func TestWritesAreObserved(t *testing.T) {
	seen := reconciled(t, observe())
	withLists(&seen)
	held := record.Index{StatusIndex: record.StatusIndex{Index: 7}, Serial: 1, UID: seen.client.UID, RealmUID: seen.realm.UID, Namespace: "team", Name: "billing"}
	holdingIndex(t, &seen, held)
	seen.records[7].ResourceVersion = "1"
	former := subjectRecord(t, &seen, onGitHub)
	seen.subjectsOfName = []*corev1.Secret{former}
	api := &server{}
	r := newReconciler(t, api, api)
	perform := func(w write) {
		t.Helper()
		testkit.Do(t, r.perform(t.Context(), &seen, w))
	}

	perform(retireIndex{held})
	if len(seen.index.Held) != 1 || !seen.index.Held[0].RetiredAt.Equal(now) {
		t.Errorf("after retiring: %+v", seen.index.Held)
	}
	perform(releaseIndex{7})
	if len(seen.index.Held)+len(seen.records) != 0 {
		t.Errorf("after releasing: %+v", seen.index.Held)
	}
	perform(holdIndex{record.Index{StatusIndex: record.StatusIndex{Index: 9}, Serial: 2}})
	if len(seen.index.Held) != 1 || seen.records[9] == nil {
		t.Errorf("after holding: %+v", seen.index.Held)
	}
	body := seen.recorded
	body.StatusIndex, body.IndexSerial, body.Disabled = &record.StatusIndex{Index: 9}, 2, true
	perform(putRecord{&body})
	if !seen.recorded.Disabled || seen.recordSecret.ResourceVersion != "3" || seen.index.Current.Index != 9 || seen.index.Serial != 2 {
		t.Errorf("after writing the record: %+v, %+v", seen.holding, seen.index)
	}
	perform(holdSubject{record.Subject{RealmUID: "r1", IssuerName: onGitHub.issuerName, Issuer: onGitHub.issuer, Subject: onGitHub.subject}})
	if seen.subjects[onGitHub] == nil {
		t.Error("after holding a subject: there is none")
	}
	perform(putCredentials{corev1ac.Secret("billing", "team").WithData(map[string][]byte{"a": []byte("b")})})
	if string(seen.credentials.Data["a"]) != "b" {
		t.Errorf("after writing the Secret: %v", seen.credentials)
	}
	perform(giveUpSubject{former})
	if len(seen.subjectsOfName) != 0 {
		t.Errorf("after giving up a subject: %v", seen.subjectsOfName)
	}
	perform(releaseClientID{})
	if seen.recordSecret != nil {
		t.Errorf("after releasing the client ID: %v", seen.recordSecret)
	}
	testkit.Diff(t, "writes", []string{"PATCH index-r1-7", "DELETE index-r1-7", "POST index-r1-9", "PATCH " + clientRecord, "POST " + former.Name, "PATCH billing", "DELETE " + former.Name, "DELETE " + clientRecord}, api.wrote)
}

// Only a POST makes a client the holder of an index, even if it holds that index already, which the cache didn't show:
// the tokens of one generation refer to it, and those of the next one must not.
func TestHeldIndexIsCreated(t *testing.T) {
	seen := reconciled(t, observe())
	withLists(&seen)
	holdingIndex(t, &seen, record.Index{StatusIndex: record.StatusIndex{Index: 7}, Serial: 1})
	api := &server{}
	testkit.Do(t, newReconciler(t, api, api).perform(t.Context(), &seen, holdIndex{record.Index{StatusIndex: record.StatusIndex{Index: 7, ValidAfter: now}, Serial: 2}}))
	testkit.Diff(t, "writes", []string{"POST index-r1-7"}, api.wrote)
}

const clientRecord = "client-256a05ee0a825d5bd4946ccdab4a84780a641de3caa08ce77649ce7b78f1a290"

// After a stale write, everything is read from the API server, and decided again, once. The status then reports nothing.
// Any other error is reported, and the status is written.
func TestErrorsOfReconcile(t *testing.T) {
	suspended := func(s *server) { s.objects[0].(*v1beta1.ApiClient).Spec.Suspend = true }
	const secret, patch, status = "PATCH billing", "PATCH " + clientRecord, "STATUS "
	withoutSecret := func(s *server) { s.objects = slices.Delete(s.objects, 2, 3) }
	isNew := func(s *server) {
		s.objects = slices.Delete(s.objects, 2, 4)
		s.objects[0].(*v1beta1.ApiClient).Status.ObservedGeneration = 0
	}
	provides := func(s *server) {
		s.objects[0].(*v1beta1.ApiClient).Spec.Secret = &v1beta1.ClientSecretSource{Provided: &v1beta1.ProvidedSecret{SecretRef: v1beta1.SecretKeyReference{Name: "billing-password"}}}
		s.objects = append(s.objects, providedVersionOf(1, password))
	}
	for name, test := range map[string]struct {
		change    func(*server)
		fails     map[string]error
		want      []string
		wantReads bool
		wantErr   error
	}{
		"no error":                      {suspended, nil, []string{patch, secret, status}, false, nil},
		"the record has changed":        {suspended, map[string]error{patch: errConflict}, []string{patch, patch}, true, errConflict},
		"the record can't be written":   {suspended, map[string]error{patch: errForbidden}, []string{patch, status}, false, errForbidden},
		"the Secret can't be written":   {suspended, map[string]error{secret: errForbidden}, []string{patch, secret, status}, false, errForbidden},
		"the status can't be written":   {suspended, map[string]error{status: errForbidden}, []string{patch, secret, status}, false, errForbidden},
		"a new client":                  {isNew, nil, []string{"POST billing", "POST " + clientRecord, status}, false, nil},
		"a revocation can't be written": {withoutSecret, map[string]error{patch: errForbidden}, []string{patch, status}, true, errForbidden},
		"a secret can't be hashed":      {provides, map[string]error{"LIST": errForbidden}, []string{status}, false, errForbidden},
		"the Secret can't be read":      {func(s *server) { s.fails = map[string]error{"LIST": errForbidden} }, nil, nil, false, errForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			cached, api, recorded := twoVersions(t)
			before := len(api.objects)
			test.change(cached)
			test.change(api)
			api.fails = test.fails
			r := newReconciler(t, cached, api, recorded)
			if len(api.objects) == before-2 {
				r = newReconciler(t, cached, api)
			}
			r.Client = both{cached, api}
			_, err := r.Reconcile(t.Context(), billing)
			if !errors.Is(err, test.wantErr) || test.wantReads != (len(api.read) > 0) {
				t.Errorf("error %v; the API server was asked for %v", err, api.read)
			}
			testkit.Diff(t, "writes", test.want, api.wrote)
		})
	}
}

// both reads from a cache, and writes to an API server.
type both struct {
	*server

	api *server
}

func (b both) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	return b.api.Create(ctx, o, options...)
}

func (b both) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	return b.api.Patch(ctx, o, p, options...)
}

func (b both) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	return b.api.Delete(ctx, o, options...)
}
func (b both) Status() client.SubResourceWriter { return b.api.Status() }

// A next secret is promoted when every token server serves its verifier, and the old one retires in the same reconcile.
func TestReconcilePromotes(t *testing.T) {
	for version, want := range map[string][]string{
		"1": {"PATCH billing", "PATCH " + clientRecord, "STATUS "},
		"0": {"STATUS "},
	} {
		seen := promoting(t)
		seen.instance.TLS.Managed, seen.caBundle = nil, nil
		seen.credentials = testkit.Value(apply.Convert[corev1.Secret](newCredentials(seen, ownCredentials(seen).Current, ownCredentials(seen).Next)))(t)
		api, recorded := serverOf(t, seen, "1")
		served := leaseOf(version)
		api.objects = append(api.objects, served)
		r := newReconciler(t, api, api, recorded)
		r.Tracker.Handler().OnAdd(served, false)
		if _, err := r.Reconcile(t.Context(), billing); err != nil {
			t.Errorf("a token server has loaded version %s: %v", version, err)
		}
		testkit.Diff(t, "writes if a token server has loaded version "+version, want, api.wrote)
	}
}

// requests receives the requests of a source.
type requests struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	got []reconcile.Request
}

func (r *requests) Add(request reconcile.Request) { r.got = append(r.got, request) }

// leaseOf returns the Lease of a token server that has loaded a version of the records.
func leaseOf(version string) *coordinationv1.Lease {
	lease := (&heartbeat.Heartbeat{Server: "a", Version: version}).Lease("records")
	lease.UID, lease.ResourceVersion = "l1", version
	return lease
}

// A step waits until token servers serve this version of the record, but the status only for its content. A client is
// reconciled when that changes, until it has no record.
func TestFollow(t *testing.T) {
	api, queue := &server{}, &requests{}
	r := newReconciler(t, api, api)
	testkit.Do(t, r.Tracker.Source(acknowledgement.Client).Start(t.Context(), queue))
	seen := reconciled(t, observe())
	seen.recordSecret.ResourceVersion = "2"
	follow := func(content string, wantAcknowledged bool, want acknowledgement.State) {
		t.Helper()
		seen.recorded.Basis.ContentVersion = content
		if r.follow(billing, &seen); seen.acknowledged != wantAcknowledged || *seen.contentState != want {
			t.Errorf("acknowledged %t, state %v; want %t, %v", seen.acknowledged, *seen.contentState, wantAcknowledged, want)
		}
	}
	leases := r.Tracker.Handler()
	leases.OnAdd(leaseOf("1"), false)
	follow("1", false, acknowledgement.Acknowledged)
	follow("", false, acknowledgement.Waiting)
	leases.OnUpdate(nil, leaseOf("2"))
	follow("", true, acknowledgement.Acknowledged)
	testkit.Diff(t, "requests", []reconcile.Request{billing}, queue.got)

	seen.setRecord(nil)
	if r.follow(billing, &seen); seen.acknowledged || seen.contentState != nil {
		t.Errorf("without a record: acknowledged %t, state %v", seen.acknowledged, seen.contentState)
	}
	leases.OnUpdate(nil, leaseOf("1"))
	if len(queue.got) > 1 {
		t.Error("a client without a record is reconciled")
	}
}

// The record of a deleted client is deleted, and the client isn't reconciled for it any longer.
func TestDeletedClient(t *testing.T) {
	_, _, recorded := twoVersions(t)
	api, queue := &server{}, &requests{}
	r := newReconciler(t, api, api, recorded)
	testkit.Do(t, r.Tracker.Source(acknowledgement.Client).Start(t.Context(), queue))
	r.Tracker.Handler().OnAdd(leaseOf("1"), false)
	r.follow(billing, &observed{holding: holding{recordSecret: recorded}})
	if _, err := r.Reconcile(t.Context(), billing); err != nil {
		t.Error(err)
	}
	testkit.Diff(t, "writes", []string{"DELETE " + clientRecord}, api.wrote)
	if r.Tracker.Handler().OnDelete(leaseOf("1")); len(queue.got) > 0 {
		t.Error("a deleted client is reconciled")
	}
}

// A POST that lands late can create the record of a deleted client whose index is retired. The operator retires the index
// again after it has deleted the record. Otherwise, another client could get the index while tokens refer to it.
func TestLateRecordOfDeletedClient(t *testing.T) {
	seen := reconciled(t, observe(withLists, func(s *observed) { s.index.Free = 3 }))
	_, recorded := serverOf(t, &seen, "1")
	index := indexRecord(t, "c1", now.Add(-72*time.Hour))
	realm := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "records", Name: record.RealmRecordName("r1")}} // unreadable: the longest retention
	api := &server{}
	if _, err := newReconciler(t, api, api, realm, recorded, index).Reconcile(t.Context(), billing); err != nil {
		t.Error(err)
	}
	testkit.Diff(t, "writes", []string{"PATCH " + index.Name, "DELETE " + clientRecord, "PATCH " + index.Name}, api.wrote)
}

// The first status waits for the token servers, unless there is an error to report.
func TestFirstStatus(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"no error": {nil, nil},
		"an error": {errForbidden, []string{"STATUS "}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := reconciled(t, observe())
			seen.recordSecret.CreationTimestamp, seen.contentState = metav1.NewTime(now), new(acknowledgement.Waiting)
			api := &server{}
			d := decided(t, &seen, now)
			d.written = d.writes
			result, err := newReconciler(t, api, api).report(t.Context(), &seen, &d, test.err)
			if !errors.Is(err, test.err) || result.RequeueAfter == 0 && test.err == nil {
				t.Errorf("reported again after %s, error %v", result.RequeueAfter, err)
			}
			testkit.Diff(t, "writes", test.want, api.wrote)
		})
	}
}
