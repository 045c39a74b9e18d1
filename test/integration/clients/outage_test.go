//go:build nightly

package clients_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// While the API server is unavailable, token servers issue tokens, and check service account tokens with
// the keys of the cluster that they have cached. A token server that restarts meanwhile has everything
// that it had acknowledged, including revocations. The operator loses its Lease, waits, and starts over in
// place. Changes are applied once the API server is back.
func TestOutage(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.LeaderElection = true
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	_, c := scenario.NewClient(t, inst, "acme")
	credentials := inst.CredentialsSecret(t, c)
	revoked := install.ApiClient(c.Namespace, "revoked", "acme")
	inst.Create(t, revoked)
	scenario.AwaitUsable(t, inst, revoked)
	rejected := inst.CredentialsSecret(t, revoked)
	inst.Delete(t, revoked)
	inst.AwaitTokens(t, rejected, false)
	pod := install.CreatePod(t, cluster.Client, c.Namespace, "workload")
	workload := install.ApiClient(c.Namespace, "workload", "acme", func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.ServiceAccounts("workload")
	})
	inst.Create(t, workload)
	inst.AwaitReady(t, workload, metav1.ConditionTrue, v1beta1.ReasonReady)
	token := install.PodToken(t, cluster.Client, pod, strings.TrimSuffix(workload.Status.TokenEndpoint, "/oauth2/token"))
	wrongAudience := install.PodToken(t, cluster.Client, pod, "https://api.example.com")
	awaitResponse(t, inst, workload, token, "")

	cluster.StopAPIServer(t)
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		for range 10 {
			if a, err := install.RequestToken(t, s, httpClient, credentials); err != nil || a.AccessToken == "" {
				t.Errorf("%s did not issue a token while the API server was unavailable: %+v, %v", s.Name, a, err)
			}
		}
		if a := requestToken(t, s, workload, workload.Status.ClientID, token); a.AccessToken == "" {
			t.Errorf("%s did not issue a token for a Pod while the API server was unavailable: %+v", s.Name, a)
		}
		if a := requestToken(t, s, workload, workload.Status.ClientID, wrongAudience); a.Error != "invalid_client" {
			t.Errorf("%s responded to a wrong audience with %+v while the API server was unavailable, want invalid_client", s.Name, a)
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("%s was not ready while the API server was unavailable: %v", s.Name, err)
		}
	}
	for range 2 { // a server that was restored keeps its records, too
		for _, s := range inst.Servers() {
			s.KillAndRestart(t)
			s.AwaitReady(t)
		}
		inst.AwaitTokens(t, credentials, true)
		inst.AwaitTokens(t, rejected, false)
	}
	awaitStartingOver(t, inst)

	cluster.StartAPIServer(t)
	second := install.ApiClient(c.Namespace, "second", "acme")
	inst.Create(t, second)
	scenario.AwaitUsable(t, inst, second)
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitTokens(t, credentials, false)
}

// awaitStartingOver waits until the operator has lost its Lease.
func awaitStartingOver(t *testing.T, inst *install.Installation) {
	t.Helper()
	install.Eventually(t, "the operator to lose its Lease", func() error {
		if !bytes.Contains(inst.OperatorLog(t), []byte("Operator failed, will start over")) {
			return errors.New("the log doesn't say so")
		}
		return nil
	})
}

var denied = flag.Duration("denied", 0, "how long the API server denies all requests in TestOperatorWaitsForRoles")

// After an outage, an API server denies all requests until it has loaded the roles. On a busy machine, that takes
// long. The operator starts over until then. Its log says what to do if the permissions are missing.
func TestOperatorWaitsForRoles(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.LeaderElection = true
	proxy := inst.StartFaultProxy(t, install.Faults{})
	inst.StartOperator(t, inst.KubeconfigFor(t, proxy.URL))
	inst.StartTokenServer(t)
	_, c := scenario.NewClient(t, inst, "acme")
	credentials := inst.CredentialsSecret(t, c)

	cluster.StopAPIServer(t)
	awaitStartingOver(t, inst)
	allow, start := proxy.Deny(), time.Now()
	cluster.StartAPIServer(t)
	install.Eventually(t, "the operator to start over several times", func() error {
		times := bytes.Count(inst.OperatorLog(t), []byte("restore the operator's ServiceAccount, roles, and role bindings"))
		if after := time.Since(start); times < 3 || after < *denied {
			return fmt.Errorf("it has reported missing permissions %d times in %s", times, after)
		}
		return nil
	})

	allow()
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitTokens(t, credentials, false)
}
