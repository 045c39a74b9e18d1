package metrics_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

// realmList is a cache with the given Realms.
type realmList struct {
	cache.Cache
	realms []v1beta1.Realm
}

func (*realmList) WaitForCacheSync(context.Context) bool { return true }

func (l *realmList) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1beta1.RealmList).Items = l.realms
	return nil
}

func TestClientCollectorCountsStaleCredentials(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(days int) metav1.Time { return metav1.NewTime(now.Add(-time.Duration(days) * 24 * time.Hour)) }
	newClient := func(realm string, created metav1.Time, secrets ...v1beta1.CredentialStatus) *v1beta1.ApiClient {
		return &v1beta1.ApiClient{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created},
			Spec:       v1beta1.ApiClientSpec{RealmRef: v1beta1.RealmReference{Name: realm}},
			Status:     v1beta1.ApiClientStatus{Credentials: secrets},
		}
	}
	withKey := newClient("acme", ago(91))
	withKey.Status.Credentials = []v1beta1.CredentialStatus{
		{Type: v1beta1.CredentialTypePublicKey, Name: "never-used"}, {Type: v1beta1.CredentialTypePublicKey, Name: "used", LastUsedTime: new(ago(1))},
	}
	collector := metrics.NewClientCollector(
		&realmList{realms: []v1beta1.Realm{{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}, {ObjectMeta: metav1.ObjectMeta{Name: "empty"}}}},
		slices.Values([]*v1beta1.ApiClient{
			newClient("acme", ago(400),
				v1beta1.CredentialStatus{Name: "used", CreationTime: new(ago(400)), LastUsedTime: new(ago(89))},
				v1beta1.CredentialStatus{Name: "stale", CreationTime: new(ago(400)), LastUsedTime: new(ago(91))}),
			newClient("acme", ago(400), v1beta1.CredentialStatus{Name: "new", CreationTime: new(ago(1))}),
			newClient("acme", ago(400), v1beta1.CredentialStatus{Name: "never-used", CreationTime: new(ago(91))}),
			withKey,
			newClient("one-of-many-names", ago(400), v1beta1.CredentialStatus{Name: "stale", CreationTime: new(ago(91))}),
			newClient("another-name", ago(400), v1beta1.CredentialStatus{Name: "stale", CreationTime: new(ago(91))}),
		}), 90*24*time.Hour, func() time.Time { return now })
	want := `
# HELP realmkeeper_stale_credentials Credentials of ApiClients that have been unused for usage.staleAfter. The realm is empty if it does not exist. Each replica of the operator reports all credentials.
# TYPE realmkeeper_stale_credentials gauge
realmkeeper_stale_credentials{realm=""} 2
realmkeeper_stale_credentials{realm="acme"} 3
realmkeeper_stale_credentials{realm="empty"} 0
`
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want), "realmkeeper_stale_credentials"); err != nil {
		t.Error(err)
	}
}
