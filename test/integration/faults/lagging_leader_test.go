//go:build nightly

package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An operator whose watch of ApiClients lags becomes the only one. It never issues tokens to a client that
// was suspended in the meantime, whether it has just become the leader or was active all the time.
func TestLaggingOperatorKeepsSuspension(t *testing.T) {
	for name, election := range map[string]bool{"new leader": true, "active": false} {
		t.Run(name, func(t *testing.T) {
			inst := install.New(t, env.Start(t), install.Settings{})
			inst.LeaderElection = election
			inst.StartOperator(t, "")
			inst.StartTokenServer(t)
			inst.StartTokenServer(t)
			realm, c := scenario.NewClient(t, inst, "acme")
			values := startDelivered(t, inst, c, time.Hour)
			proxy := inst.StartFaultProxy(t, install.Faults{})
			second := inst.StartSecondOperator(t, inst.KubeconfigFor(t, proxy.URL))
			if election {
				awaitLog(t, second.LogTail, "leader lease")
			} else {
				awaitLog(t, second.LogTail, "Starting workers")
			}

			thaw := proxy.FreezeWatches("apiclients")
			defer thaw()
			values.pause()
			install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
			inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonSuspended)
			inst.AwaitTokens(t, inst.CredentialsSecret(t, c), false)
			values.expect(true)
			inst.StopOperator(t)
			install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.Claims = v1beta1.Claims{{Name: "tenant", String: "acme"}} })
			if election {
				awaitRenewals(t, inst, inst.Namespace, leader.LeaseName, 3)
			} else {
				awaitClaim(t, inst, c)
			}
			if r := clientRecord(t, inst, c); !r.Disabled {
				t.Error("the record is not disabled")
			}
			values.pause()
			thaw()
			awaitClaim(t, inst, c)
			inst.AwaitTokens(t, inst.CredentialsSecret(t, c), false)
			install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
			scenario.AwaitUsable(t, inst, c)
			values.stop()
			t.Logf("%d requests", values.calls.Load())
		})
	}
}

// awaitLog waits until a log contains a word.
func awaitLog(t *testing.T, tail func() string, word string) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("%q in the log", word), func() error {
		if log := tail(); !strings.Contains(log, word) {
			return fmt.Errorf("the log ends with:\n%s", log)
		}
		return nil
	})
}

// awaitClaim waits until the operator has written the claims of the Realm to the record of a client.
func awaitClaim(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) {
	t.Helper()
	install.Eventually(t, "the claims of the Realm in the record", func() error {
		if r := clientRecord(t, inst, c); len(r.Claims) == 0 {
			return fmt.Errorf("the record has none")
		}
		return nil
	})
}
