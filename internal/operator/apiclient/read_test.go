package apiclient

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

var billing = ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "billing"}}

// twoVersions returns a cache and an API server with the objects of a client that was reconciled, and its record in the
// cache. Those of the API server have version 2, those of the cache version 1.
func twoVersions(t *testing.T, change ...func(*observed)) (cached, live *server, cachedRecord *corev1.Secret) {
	t.Helper()
	seen := reconciled(t, observe(change...))
	cached, seen.recordSecret = serverOf(t, &seen, "1")
	live, _ = serverOf(t, &seen, "2")
	return cached, live, seen.recordSecret
}

// serverOf returns a server with the observed objects in a version, and the record.
func serverOf(t *testing.T, seen *observed, version string) (s *server, recorded *corev1.Secret) {
	t.Helper()
	s, seen.recordSecret.Namespace, seen.client.Status.ObservedGeneration = &server{}, "records", 1
	written := func(secret *corev1.Secret) *corev1.Secret {
		desired := testkit.Value(apply.Convert[corev1ac.SecretApplyConfiguration](secret))(t)
		return testkit.Value(apply.Secret(t.Context(), &server{}, nil, desired))(t)
	}
	for _, o := range []client.Object{seen.client, seen.realm, written(seen.credentials), written(seen.recordSecret), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}} {
		o := o.DeepCopyObject().(client.Object)
		o.SetResourceVersion(version)
		s.objects = append(s.objects, o)
	}
	return s, s.objects[3].(*corev1.Secret)
}

// What was read from the API server contains nothing from a cache.
func TestLiveReads(t *testing.T) {
	for _, live := range []bool{false, true} {
		cached, api, recorded := twoVersions(t)
		seen := testkit.Value(newReconciler(t, cached, api, recorded).observe(t.Context(), billing, live))(t)
		want := map[bool]string{false: "1", true: "2"}[live]
		for what, object := range map[string]client.Object{"ApiClient": seen.client, "Realm": seen.realm, "namespace": seen.namespace, "record": seen.recordSecret} {
			if object.GetResourceVersion() != want {
				t.Errorf("live %t: the %s has version %s", live, what, object.GetResourceVersion())
			}
		}
		if live != (seen.credentials != nil && seen.credentials.ResourceVersion == "2") || live != (len(api.read) > 0) {
			t.Errorf("live %t: credentials Secret %v; the API server was asked for %v", live, seen.credentials, api.read)
		}
	}
}

// A new client has no record yet, so that the API server isn't asked for it.
func TestNewClientCostsNoReads(t *testing.T) {
	cached, api, _ := twoVersions(t)
	cached.objects[0].(*v1beta1.ApiClient).Status.ObservedGeneration = 0
	seen := testkit.Value(newReconciler(t, cached, api).observe(t.Context(), billing, false))(t)
	if seen.recordSecret != nil || len(api.read) > 0 {
		t.Errorf("record %v; the API server was asked for %v", seen.recordSecret, api.read)
	}
}

// The record of a client that was reconciled may be missing in the cache.
func TestRecordMissingInCache(t *testing.T) {
	cached, api, _ := twoVersions(t)
	seen := testkit.Value(newReconciler(t, cached, api).observe(t.Context(), billing, false))(t)
	if seen.recordSecret == nil || !slices.Equal(api.read, []string{"v1.Secret"}) {
		t.Errorf("record %v; the API server was asked for %v", seen.recordSecret, api.read)
	}
}

// fetch reads in the order that acquiring depends on: the Realm after who holds what the client would acquire. If the
// API server contradicts what was read, fetch reads everything again, once.
func TestFetch(t *testing.T) {
	federated := func(s *observed) {
		*s = observeFederated([]v1beta1.Identity{exact("github", shop)})
		s.client.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
	}
	everything := []string{"v1beta1.ApiClient", "v1beta1.Realm", "v1.Namespace", "v1.Secret", "v1.Secret"}
	// Without the record, the client may have been deleted after it was read.
	withoutRecord := []string{"v1beta1.ApiClient", "v1beta1.Realm", "v1.Namespace", "v1.Secret", "v1beta1.ApiClient", "v1.Secret"}
	for name, test := range map[string]struct {
		lacks    lacks
		live     bool
		change   func(cached, live *server)
		want     []string // types
		wantLive bool
		wantErr  error
	}{
		"everything":       {lacks: lacksLive | lacksRetention | lacksRealm, want: everything, wantLive: true},
		"everything again": {lacks: lacksLive, live: true, want: nil, wantLive: true, wantErr: errInconclusive},
		"a subject":        {lacks: lacksSubjects | lacksRealm, want: []string{"v1.Secret", "v1beta1.Realm", "v1.Namespace"}},
		"the record":       {lacks: lacksRecord, want: append([]string{"v1.Secret"}, everything...), wantLive: true}, // It has changed.
		"a deleted record": {lacks: lacksRecord, change: func(_, live *server) { live.objects = slices.Delete(live.objects, 3, 4) }, want: append([]string{"v1.Secret"}, withoutRecord...), wantLive: true},
		"the same record":  {lacks: lacksRecord, change: func(_, live *server) { live.objects[3].SetResourceVersion("1") }, want: []string{"v1.Secret"}},
		"a recreated Realm": {lacks: lacksRealm, change: func(_, live *server) { live.objects[1].SetUID("r2") }, want: []string{
			"v1beta1.Realm", "v1.Namespace", "v1beta1.ApiClient", "v1beta1.Realm", "v1.Namespace",
			"v1beta1.ApiClient", "v1beta1.Realm", // to collect the record of the former Realm
			"v1.Secret", "v1beta1.ApiClient", "v1.Secret",
		}, wantLive: true},
	} {
		t.Run(name, func(t *testing.T) {
			cached, api, recorded := twoVersions(t, federated)
			if test.change != nil {
				test.change(cached, api)
			}
			r := newReconciler(t, cached, api, recorded)
			seen := testkit.Value(r.observe(t.Context(), billing, test.live))(t)
			api.read = nil
			seen, err := r.fetch(t.Context(), billing, seen, &decision{lacks: test.lacks})
			if !errors.Is(err, test.wantErr) || seen.live != test.wantLive {
				t.Errorf("live %t, error %v", seen.live, err)
			}
			if test.lacks&lacksRealm != 0 && !test.wantLive && (!seen.realmLive || seen.realm.ResourceVersion != "2") {
				t.Errorf("the Realm is from the cache: %t", !seen.realmLive)
			}
			testkit.Diff(t, "reads", test.want, api.read)
		})
	}
}

// The records of a former client with the same name are deleted, and what a cache says about them until then isn't
// decided from.
func TestRecordsOfFormerClient(t *testing.T) {
	for name, former := range map[string]bool{"former client": true, "other client": false} {
		t.Run(name, func(t *testing.T) {
			cached, api, recorded := twoVersions(t)
			recorded = changed(t, recorded, func(c *record.Client) {
				if c.UID = "c0"; !former {
					c.Namespace = "other"
				}
			})
			subject := subjectRecord(t, new(observe()), onGitHub, func(b *record.Subject) { b.UID = "c0" })
			if !former {
				subject = subjectRecord(t, new(observe()), onGitHub)
			}
			seen := testkit.Value(newReconciler(t, cached, api, recorded, subject).observe(t.Context(), billing, false))(t)
			var want []string // A subject must not be free as long as the client's record lists it.
			if former {
				want = []string{"DELETE " + recorded.Name, "DELETE " + subject.Name}
			}
			testkit.Diff(t, "writes", want, api.wrote)
			if d := testkit.Value(decide(&seen, now, rand.Reader))(t); (d.lagging != "") != former {
				t.Errorf("lags: %q, accepted %+v", d.lagging, d.accepted)
			}
		})
	}
}

// changed returns the record of a client with another content.
func changed(t *testing.T, secret *corev1.Secret, change func(*record.Client)) *corev1.Secret {
	t.Helper()
	body := testkit.Value(record.ReadClient(secret))(t)
	change(&body)
	return testkit.Value(apply.Convert[corev1.Secret](testkit.Value(recordsecret.ForClient("records", body))(t)))(t)
}

// A value that can't be hashed now stays unhashed, and is not tried again in the same reconcile.
func TestHashThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		api          *server
		wantErr      error
		wantUnhashed bool
	}{
		"hashed":            {&server{objects: []client.Object{providedVersionOf(1, password)}}, nil, false},
		"can't be read":     {&server{fails: map[string]error{"LIST": errForbidden}}, errForbidden, true},
		"was deleted since": {&server{}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(withProvided(0), func(s *observed) { s.provided, s.unhashed = providedVersionOf(1, password), true })
			testkit.Do(t, newReconciler(t, test.api, test.api).hash(t.Context(), &seen))
			if !seen.hashTried || !errors.Is(seen.hashErr, test.wantErr) || seen.unhashed != test.wantUnhashed {
				t.Errorf("tried %t, unhashed %t, error %v", seen.hashTried, seen.unhashed, seen.hashErr)
			}
		})
	}
}

// The record of the client's index can be missing in the cache, and the list can be in the Realm's record before it is
// in its status.
func TestIndexMissingInCache(t *testing.T) {
	index := func(uid types.UID) *corev1.Secret { return indexRecord(t, uid, time.Time{}) }
	key := testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(t)
	listing := testkit.Value(recordsecret.ForRealm("records", observe().realm, record.Realm{
		Name: "acme", Issuer: "https://acme.example.com", TokenLifetimeSeconds: 60, Keys: []signingkey.Key{key}, StatusLists: &record.StatusLists{Number: 1, TTLSeconds: 60},
	}))(t)
	for name, test := range map[string]struct {
		objects            []client.Object
		wantHeld           int
		wantLost, wantList bool
	}{
		"held by the client":     {[]client.Object{index("c1")}, 1, false, false},
		"held by another client": {[]client.Object{index("c2")}, 0, true, false},
		"deleted by a user":      {nil, 0, false, false},
		"listed by the record":   {[]client.Object{testkit.Value(apply.Convert[corev1.Secret](listing))(t)}, 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := reconciled(t, observe())
			seen.recorded.StatusIndex, seen.recorded.IndexSerial = &record.StatusIndex{Index: 3}, 1
			api := &server{objects: test.objects}
			testkit.Do(t, newReconciler(t, api, api).readIndexes(t.Context(), &seen))
			if len(seen.index.Held) != test.wantHeld || seen.index.CurrentLost != test.wantLost || seen.index.HasList != test.wantList {
				t.Errorf("got %+v", seen.index)
			}
		})
	}
}

func indexRecord(t *testing.T, uid types.UID, retiredAt time.Time) *corev1.Secret {
	t.Helper()
	body := record.Index{StatusIndex: record.StatusIndex{Index: 3}, Serial: 1, RetiredAt: retiredAt, UID: uid, Namespace: "team", Name: "billing", RealmUID: "r1"}
	return testkit.Value(apply.Convert[corev1.Secret](testkit.Value(recordsecret.ForIndex("records", body))(t)))(t)
}

// If the record of a client was deleted or restored, only the API server knows whether the client has given up its
// index. With a retired one, the tokens of the client could refer to an index that is released before they expire.
func TestIndexWithoutSerial(t *testing.T) {
	for name, test := range map[string]struct {
		seen observed
		api  []client.Object
		want []time.Time // when the held indexes were retired
	}{
		"as in the cache":              {observe(), []client.Object{indexRecord(t, "c1", time.Time{})}, []time.Time{{}}},
		"retired":                      {observe(), []client.Object{indexRecord(t, "c1", now)}, []time.Time{now}},
		"retired, the record restored": {reconciled(t, observe()), []client.Object{indexRecord(t, "c1", now)}, []time.Time{now}},
		"released":                     {observe(), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := test.seen
			seen.live, seen.ofName = true, []*corev1.Secret{indexRecord(t, "c1", time.Time{})}
			api := &server{objects: test.api}
			testkit.Do(t, newReconciler(t, api, api).readIndexes(t.Context(), &seen))
			var got []time.Time
			for _, held := range seen.index.Held {
				got = append(got, held.RetiredAt)
			}
			testkit.Diff(t, "retired", test.want, got)
		})
	}
}

// A namespace that the client ID resembles is also ignored if the Realm is read again.
func TestLiveRealmOfHolder(t *testing.T) {
	seen := reconciled(t, observe(withClientID))
	seen.client.Spec.ClientID = "acme.billing"
	api := &server{objects: []client.Object{seen.realm, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}}}
	for _, held := range []bool{true, false} {
		if !held {
			seen.setRecord(nil)
		}
		testkit.Do(t, newReconciler(t, api, api).readLiveRealm(t.Context(), &seen))
		if (seen.otherNamespace == "") != held {
			t.Errorf("held %t: the client ID resembles that of namespace %q", held, seen.otherNamespace)
		}
	}
}

// A step that can't be undone isn't planned again if the API server doesn't confirm that every token server serves the
// record, because none does.
func TestUnconfirmedStep(t *testing.T) {
	seen, api := *promoting(t), &server{}
	testkit.Do(t, newReconciler(t, api, api).confirm(t.Context(), &seen))
	if d := testkit.Value(decide(&seen, now, rand.Reader))(t); d.lacks != 0 || d.plan.Step != "" || !seen.unconfirmed {
		t.Errorf("lacks %b, plans the step %q", d.lacks, d.plan.Step)
	}
}
