package operator_test

import (
	"testing"

	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A leader that is killed is followed by another once its Lease has run out, and one that
// stops in good order at once.
func TestLeaderIsFollowed(t *testing.T) {
	env := testenv.Start(t)
	install := testinstall.New(t, env, testinstall.Settings{})
	install.LeaderElection = true
	team := env.Namespace(t)
	install.StartOperator(t, "")
	install.StartTokenServer(t)
	install.Create(t, testinstall.Realm("acme"))
	first := testinstall.ApiClient(team, "first", "acme")
	install.Create(t, first)
	converges(t, install, first)

	install.KillAndRestartOperator(t)
	second := testinstall.ApiClient(team, "second", "acme")
	install.Create(t, second)
	converges(t, install, second)

	install.StopOperator(t)
	install.StartOperator(t, "")
	third := testinstall.ApiClient(team, "third", "acme")
	install.Create(t, third)
	converges(t, install, third)
}
