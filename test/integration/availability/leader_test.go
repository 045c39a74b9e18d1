package availability_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A second operator takes over after the Lease of a killed leader has expired. If the leader shuts
// down gracefully, it takes over immediately.
func TestOperatorTakesOverLease(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.LeaderElection = true
	team := cluster.Namespace(t)
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	first := install.ApiClient(team, "first", "acme")
	inst.Create(t, first)
	scenario.AwaitUsable(t, inst, first)

	inst.KillAndRestartOperator(t)
	second := install.ApiClient(team, "second", "acme")
	inst.Create(t, second)
	scenario.AwaitUsable(t, inst, second)

	inst.StopOperator(t)
	inst.StartOperator(t, "")
	third := install.ApiClient(team, "third", "acme")
	inst.Create(t, third)
	scenario.AwaitUsable(t, inst, third)
}
