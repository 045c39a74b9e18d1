// Package authority_test checks the life of the managed CA: renewal, distribution, and recovery. The
// tests run at the same time, each with an installation of its own.
package authority_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithRaceDetector(), env.WithClusterTrustBundles())
}
