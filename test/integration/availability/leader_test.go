package availability_test

import (
	"testing"

	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A leader that is killed is followed by another once its Lease has run out, and one that
// stops in good order at once.
func TestLeaderIsFollowed(t *testing.T) {
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
