package realm

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	k8sevents "k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/events"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
)

// Of a deleted Realm, only its own records are deleted: neither those of its clients, even if one has lost the
// namespace of its owner, nor those of the Realms and ApiClients that share its key in the index by owner.
func TestOrphansOfRealm(t *testing.T) {
	const others = 20_000 // More than the index has keys.
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Secret{}, 0, toolscache.Indexers{})
	scheme := runtime.NewScheme()
	testkit.Do(t, v1beta1.AddToScheme(scheme))
	testkit.Do(t, corev1.AddToScheme(scheme))
	var deleted []string
	api := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.DeleteOption) error {
			deleted = append(deleted, object.GetName())
			return nil
		},
	}).Build()
	records := testkit.Value(recordstore.New(informer, api, api, "system"))(t)
	add := func(name, owner string) {
		testkit.Do(t, informer.GetIndexer().Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: name, Annotations: map[string]string{v1beta1.OwnerAnnotation: owner},
		}}))
	}
	add("realm-1", "acme")
	add("realm-2", "acme") // of an earlier Realm with this name
	add("client-1", "acme/acme")
	for _, kind := range []string{"client", "subject", "index-1"} {
		add(kind+"-2", "acme")
	}
	for i := range others {
		n := strconv.Itoa(i)
		add("realm-other"+n, "other"+n)
		add("client-other"+n, "apps/client"+n)
	}

	at := func() time.Time { return now }
	tracker := acknowledgement.NewTracker(api, "system", at)
	m := metrics.New(prometheus.NewRegistry())
	r := &Reconciler{
		Client: api, Live: api, Records: records, Tracker: tracker, Instance: instance(), Metrics: m,
		Issuers: trustedissuers.New(instance(), m, at, func() float64 { return 0 }), Events: events.NewRecorder(&k8sevents.FakeRecorder{}),
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "acme"}}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(deleted)
	testkit.Diff(t, "deleted records", []string{"realm-1", "realm-2"}, deleted)
}
