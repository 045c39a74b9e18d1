package restore_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// The controller manager collects credentials Secrets whose owners don't exist.
func TestMain(m *testing.M) {
	env.Main(m, env.WithControllerManager())
}
