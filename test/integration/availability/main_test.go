// Package availability_test checks what keeps the service up: the life of the managed CA, the correction
// of drift, programs and CRDs of different versions, and operators that don't start where they would do
// harm.
package availability_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithRaceDetector(), env.WithControllerManager(), env.WithClusterTrustBundles())
}
