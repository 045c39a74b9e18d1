package portal_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

func TestUnusedCredentialsAreMarked(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	at := func(ago time.Duration) *metav1.Time {
		return &metav1.Time{Time: f.now().Add(-ago).Truncate(time.Second)}
	}
	c := v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-apps", Name: "billing", CreationTimestamp: *at(100 * day)}}
	c.Spec.Secret = &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{
		{ID: "stale"}, {ID: "used"}, {ID: "recent"}, {ID: "expired", ExpirationTime: at(day)}, {ID: "pending"},
	}}
	secret := v1beta1.CredentialTypeSecret
	c.Status.Credentials = []v1beta1.CredentialStatus{
		{Type: secret, Name: "stale", CreationTime: at(100 * day), LastUsedTime: at(91 * day)},
		{Type: secret, Name: "used", CreationTime: at(100 * day), LastUsedTime: at(89 * day)},
		{Type: secret, Name: "recent", CreationTime: at(89 * day)},
		{Type: secret, Name: "expired", CreationTime: at(100 * day), ExpirationTime: at(day)},
		{Type: v1beta1.CredentialTypePublicKey, Name: "never"},
		{Type: v1beta1.CredentialTypeIdentity, Name: "worker", LastUsedTime: at(day)},
		{Type: v1beta1.CredentialTypeIdentity, Name: "hourly", LastUsedTime: &metav1.Time{Time: f.now().Add(-time.Hour).Truncate(time.Hour)}},
		{Type: v1beta1.CredentialTypeIdentity, Name: "busy", LastUsedTime: &metav1.Time{Time: f.now().Truncate(time.Hour)}},
	}
	f.api.handle(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/apiclients/billing"):
			_ = json.NewEncoder(w).Encode(c)
		case strings.HasSuffix(r.URL.Path, "/events"):
			_ = json.NewEncoder(w).Encode(corev1.EventList{})
		default:
			return false
		}
		return true
	})
	b := f.browser("192.0.2.1")
	b.signIn(goodToken)
	page := b.get("/clients/acme-apps/billing").body
	rows := regexp.MustCompile(`(?s)<th scope="row"><code>(\w+)</code>.*?<td data-label="Last used">(.*?)</td>`).FindAllStringSubmatch(page, -1)
	got := map[string]string{}
	for _, row := range rows {
		got[row[1]] = strings.TrimSpace(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(row[2], ""))
	}
	want := map[string]string{
		"stale": "91 days ago Unused", "used": "89 days ago", "recent": "Never", "expired": "Never", "pending": "Never",
		"never": "Never Unused", "worker": "1 day ago", "hourly": "1 hour ago", "busy": "this hour",
	}
	testkit.Diff(t, "Last uses", want, got)
}
