package availability_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Token servers issue tokens while the API server is unavailable, and apply later changes once it
// is back.
func TestTokensWithoutAPIServer(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)

	cluster.StopAPIServer(t)
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		for range 50 {
			a, err := install.RequestToken(t, s, httpClient, credentials)
			if err != nil || a.AccessToken == "" {
				t.Fatalf("%s did not issue a token while the API server was unavailable: %+v, %v", s.Name, a, err)
			}
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("%s was not ready while the API server was unavailable: %v", s.Name, err)
		}
	}

	cluster.StartAPIServer(t)
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitTokens(t, credentials, false)
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	inst.AwaitTokens(t, credentials, true)
}

// A token server that has not yet loaded its records responds with 503. It must not report that
// credentials are invalid.
func TestUnloadedServerIsUnavailable(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)

	late := inst.LaunchTokenServer(t, inst.KubeconfigFor(t, "https://127.0.0.1:1"))
	httpClient := late.Client(t)
	install.Eventually(t, "the late server to respond with 503", func() error {
		a, err := install.RequestToken(t, late, httpClient, credentials)
		if err == nil && (a.Status != 503 || a.Error != "temporarily_unavailable") {
			err = fmt.Errorf("the response is %d %s", a.Status, a.Error)
		}
		return err
	})
	if late.Ready(t.Context()) == nil {
		t.Error("a server that has not loaded its records is ready")
	}
}

// Programmed waits for every live token server, but a dead one doesn't block it permanently.
func TestReadyWaitsForEveryLiveServer(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)

	frozen := inst.Servers()[1]
	inst.AwaitLiveServers(t, len(inst.Servers()))
	frozen.Freeze(t)
	late := install.ApiClient(c.Namespace, "late", "acme")
	inst.Create(t, late)
	inst.AwaitReady(t, late, metav1.ConditionUnknown, v1alpha1.ReasonProgressing)
	frozen.Thaw(t)
	scenario.AwaitUsable(t, inst, late)

	inst.KillTokenServer(t, frozen)
	later := install.ApiClient(c.Namespace, "later", "acme")
	inst.Create(t, later)
	inst.AwaitReady(t, later, metav1.ConditionUnknown, v1alpha1.ReasonProgressing)
	inst.AwaitReady(t, later, metav1.ConditionTrue, v1alpha1.ReasonReady) // after the Lease has expired
}
