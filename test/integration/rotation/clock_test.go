package rotation_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// The clock of the operator's node is two hours ahead of the API server's. The operator uses the API
// server's time and reports the difference. It works with token servers whose clocks are two hours
// ahead of its own time.
func TestOperatorWithWrongClock(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	proxy := inst.StartFaultProxy(t, install.Faults{})
	proxy.SetClock(-2 * time.Hour)
	inst.StartOperator(t, inst.KubeconfigFor(t, proxy.URL))
	inst.StartTokenServer(t).AwaitReady(t)
	c, realm := install.ApiClient(cluster.Namespace(t), "billing", "acme"), install.Realm("acme")
	inst.Create(t, realm, c)
	scenario.AwaitUsable(t, inst, c)
	install.Eventually(t, "the metric of the skew", func() error {
		text := inst.OperatorMetric(t, "realmkeeper_clock_skew_seconds")
		if skew, err := strconv.ParseFloat(text, 64); err != nil || skew < 7200 || skew > 7210 {
			return fmt.Errorf("it is %q", text)
		}
		return nil
	})
	scenario.AwaitSigningKeys(t, inst, realm, "Active")
	if created := realm.Status.SigningKeys[0].CreationTime; time.Since(created.Time) < 2*time.Hour {
		t.Errorf("the signing key was created at %s", created)
	}
}
