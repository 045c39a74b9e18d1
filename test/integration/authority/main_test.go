// Package authority_test checks the life of the managed CA: renewal, distribution, and recovery.
package authority_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithRaceDetector(), env.WithClusterTrustBundles())
}
