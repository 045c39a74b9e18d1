package availability_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Another operator takes over from a killed leader after the Lease has expired, and immediately
// from a leader that shuts down gracefully.
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
