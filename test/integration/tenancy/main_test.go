package tenancy_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// The controller manager fills the role "edit", which attackers have, and collects garbage.
func TestMain(m *testing.M) {
	env.Main(m, env.WithNightlyRaceDetector(), env.WithControllerManager())
}
