//go:build nightly

package faults_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A write of the credentials Secret takes effect long after the operator that sent it has died, and after
// the next operator has continued. No value that was delivered is rejected, and the value in the Secret is
// accepted.
func TestLateWriteOfCredentials(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	team := inst.Env.Namespace(t)
	next := `"` + v1beta1.SecretKeyNextClientSecret + `":`

	for name, change := range map[string]string{"next": next + `"`, "promoted": next + "null"} {
		t.Run(name, func(t *testing.T) {
			c := install.ApiClient(team, name, "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(shortOverlap) })
			inst.Create(t, c)
			scenario.AwaitUsable(t, inst, c)
			values := startDelivered(t, inst, c, shortOverlap)
			held := holdFrom(t, inst, func(r *http.Request, body []byte) bool {
				return r.Method == http.MethodPatch && r.URL.Path == "/api/v1/namespaces/"+team+"/secrets/"+c.Name && strings.Contains(string(body), change)
			})
			scenario.RotateSecret(t, inst, c)
			install.Eventually(t, "the write", held.Arrived)
			inst.KillAndRestartOperator(t)
			scenario.AwaitSecretRotated(t, inst, c)
			scenario.RotateSecret(t, inst, c)
			scenario.AwaitSecretRotated(t, inst, c)

			before := current(t, inst, c)
			statuses := held.Release()
			if !slices.Equal(statuses, []int{http.StatusConflict}) {
				t.Errorf("the API server responded to the late write with %v", statuses)
			}
			expectUnharmed(t, inst, c, before)
			values.stop()
			t.Logf("%d requests", values.calls.Load())
		})
	}
	for name, test := range map[string]struct {
		released bool // before the next operator starts
		want     int
	}{"created-before": {true, http.StatusCreated}, "created-after": {false, http.StatusConflict}} {
		t.Run(name, func(t *testing.T) {
			c := install.ApiClient(team, name, "acme")
			held := holdFrom(t, inst, func(r *http.Request, _ []byte) bool {
				return r.Method == http.MethodPost && r.URL.Path == "/api/v1/namespaces/"+team+"/secrets"
			})
			inst.Create(t, c)
			install.Eventually(t, "the write", held.Arrived)
			inst.StopOperator(t)
			var statuses []int
			before := ""
			if test.released {
				statuses = held.Release()
				before = current(t, inst, c)
			}
			inst.StartOperator(t, "")
			scenario.AwaitUsable(t, inst, c)
			if !test.released {
				before = current(t, inst, c)
				statuses = held.Release()
			}
			if !slices.Equal(statuses, []int{test.want}) {
				t.Errorf("the API server responded to the late write with %v, want %d", statuses, test.want)
			}
			expectUnharmed(t, inst, c, before)
		})
	}
}

// holdFrom restarts the operator behind a proxy that holds some of its writes.
func holdFrom(t *testing.T, inst *install.Installation, holds func(*http.Request, []byte) bool) *install.HeldWrites {
	t.Helper()
	proxy := inst.StartFaultProxy(t, install.Faults{})
	held := proxy.Hold(holds)
	inst.KillAndRestartOperatorWith(t, inst.KubeconfigFor(t, proxy.URL))
	return held
}

// expectUnharmed checks that the client still has the given secret after the operator has reconciled it,
// and that every token server accepts it.
func expectUnharmed(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient, secret string) {
	t.Helper()
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.TokenLifetime = &v1beta1.Duration{Duration: 30 * time.Minute} })
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	scenario.AwaitUsable(t, inst, c)
	if current(t, inst, c) != secret {
		t.Error("the secret was replaced without a rotation")
	}
}
