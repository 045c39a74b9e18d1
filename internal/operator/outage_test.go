package operator_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

var errorf = fmt.Errorf

// Token servers go on without the API server, and take up what changed when it is back.
func TestTokensFlowWithoutTheAPIServer(t *testing.T) {
	env := testenv.Start(t)
	install, _, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)

	env.StopAPIServer(t)
	for _, s := range install.Servers() {
		httpClient := s.Client(t)
		for range 50 {
			a, err := testinstall.RequestToken(t, s, httpClient, consumer)
			if err != nil || a.AccessToken == "" {
				t.Fatalf("%s without the API server: %+v, %v", s.Name, a, err)
			}
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("%s without the API server: %v", s.Name, err)
		}
	}

	env.StartAPIServer(t)
	testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	install.AwaitTokens(t, consumer, false)
	testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
	install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	install.AwaitTokens(t, consumer, true)
}

// A token server that starts without the API server, or before it has loaded, asks to
// come again; it never says that credentials are wrong.
func TestUnloadedServerAsksToComeAgain(t *testing.T) {
	env := testenv.Start(t)
	install, _, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)

	late := install.LaunchTokenServer(t, install.KubeconfigFor(t, "https://127.0.0.1:1"))
	httpClient := late.Client(t)
	testinstall.Eventually(t, "the late server to answer 503", func() error {
		a, err := testinstall.RequestToken(t, late, httpClient, consumer)
		if err == nil && (a.Status != 503 || a.Error != "temporarily_unavailable") {
			err = errorf("it answers %d %s", a.Status, a.Error)
		}
		return err
	})
	if late.Ready(t.Context()) == nil {
		t.Error("a server that has loaded nothing says that it is ready")
	}
}

// Programmed waits for every live token server, and a dead one holds nothing up for ever.
func TestReadyWaitsForEveryLiveServer(t *testing.T) {
	env := testenv.Start(t)
	install, _, c := inUse(t, env)

	frozen := install.Servers()[1]
	frozen.Freeze(t)
	late := testinstall.ApiClient(c.Namespace, "late", "acme")
	install.Create(t, late)
	install.AwaitReady(t, late, metav1.ConditionUnknown, v1alpha1.ReasonProgressing)
	frozen.Thaw(t)
	converges(t, install, late)

	install.KillTokenServer(t, frozen)
	later := testinstall.ApiClient(c.Namespace, "later", "acme")
	install.Create(t, later)
	install.AwaitReady(t, later, metav1.ConditionUnknown, v1alpha1.ReasonProgressing)
	install.AwaitReady(t, later, metav1.ConditionTrue, v1alpha1.ReasonReady) // once the Lease has run out
}
