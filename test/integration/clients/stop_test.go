package clients_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A stop cancels the requests in progress. That isn't an error, so it isn't logged.
func TestStopLogsNoError(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.LeaderElection = true
	proxy := inst.StartFaultProxy(t, install.Faults{})
	kubeconfig := inst.KubeconfigFor(t, proxy.URL)
	inst.StartOperator(t, kubeconfig)
	s := inst.LaunchTokenServer(t, kubeconfig)
	s.AwaitReady(t)
	_, c := scenario.NewClient(t, inst, "acme")

	stop := func(name, held string, log func() []byte, change, stop func()) {
		t.Helper()
		writes := proxy.Hold(func(r *http.Request, _ []byte) bool {
			return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, held)
		})
		change()
		install.Eventually(t, name+" to write", writes.Arrived)
		before := len(log())
		stop()
		writes.Release()
		for line := range bytes.Lines(log()[before:]) {
			if lower := bytes.ToLower(line); bytes.Contains(lower, []byte(`"level":"error"`)) || bytes.Contains(lower, []byte(`"level":"warn"`)) || bytes.Contains(lower, []byte("canceled")) {
				t.Errorf("%s logs at its stop: %s", name, line)
			}
		}
	}
	describe := func(description string) func() {
		return func() {
			install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Description = description })
		}
	}
	stop("the operator", "/apiclients/"+c.Name+"/status", func() []byte { return inst.OperatorLog(t) }, describe("Changed."), func() { inst.StopOperator(t) })
	inst.StartOperator(t, "")
	stop("the token server", "/leases/token-server-", func() []byte { return inst.Log(t, s) }, describe("Changed again."), func() { inst.StopTokenServers(t) })
}
