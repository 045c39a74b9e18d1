package clients_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithNightlyRaceDetector(), env.WithControllerManager())
}
