package clients_test

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A rate limit set on the client or on the realm applies at every token server until it is removed.
func testTokensPerSecond(t *testing.T, inst *install.Installation) {
	realm, c := scenario.NewClient(t, inst, "limits")
	credentials := inst.CredentialsSecret(t, c)
	inst.AwaitTokens(t, credentials, true)

	// limited requests tokens from each token server as fast as possible, and checks whether the
	// server enforces a rate limit.
	limited := func(t *testing.T, want bool) {
		t.Helper()
		for _, s := range inst.Servers() {
			httpClient, got := s.Client(t), false
			for range 20 {
				a, err := install.RequestToken(t, s, httpClient, credentials)
				if err != nil {
					t.Fatal(err)
				}
				if a.Status != http.StatusOK && (a.Status != http.StatusTooManyRequests || a.Error != "temporarily_unavailable") {
					t.Errorf("%s responded with %d %s, want 200 or 429 temporarily_unavailable", s.Name, a.Status, a.Error)
				}
				got = got || a.Status == http.StatusTooManyRequests
			}
			if got != want {
				t.Errorf("%s limited the rate: %t, want %t", s.Name, got, want)
			}
		}
	}
	limited(t, false)
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Limits.TokensPerSecondPerServer = 1 })
	scenario.AwaitUsable(t, inst, c)
	limited(t, true)
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Limits = v1beta1.Limits{} })
	scenario.AwaitUsable(t, inst, c)
	limited(t, false)
	install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.Limits.TokensPerSecondPerServer = 1 })
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	limited(t, true)
}
