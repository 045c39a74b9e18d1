package operator_test

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A limit of the realm, or of the client, reaches every token server, and goes again.
func TestTokensPerSecond(t *testing.T) {
	env := testenv.Start(t)
	install, realm, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)
	install.AwaitTokens(t, consumer, true)

	// limited asks each token server for tokens as fast as it can.
	limited := func(t *testing.T, want bool) {
		t.Helper()
		for _, s := range install.Servers() {
			httpClient, got := s.Client(t), false
			for range 20 {
				a, err := testinstall.RequestToken(t, s, httpClient, consumer)
				if err != nil {
					t.Fatal(err)
				}
				if a.Status != http.StatusOK && (a.Status != http.StatusTooManyRequests || a.Error != "temporarily_unavailable") {
					t.Errorf("%s answers %d %s", s.Name, a.Status, a.Error)
				}
				got = got || a.Status == http.StatusTooManyRequests
			}
			if got != want {
				t.Errorf("%s limits: %t, want %t", s.Name, got, want)
			}
		}
	}
	limited(t, false)
	testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Limits.TokensPerSecond = new(int32(1)) })
	converges(t, install, c)
	limited(t, true)
	testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Limits = v1alpha1.Limits{} })
	converges(t, install, c)
	limited(t, false)
	testinstall.Change(t, install, realm, func(r *v1alpha1.Realm) { r.Spec.Limits.TokensPerSecond = new(int32(1)) })
	install.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	limited(t, true)
}
