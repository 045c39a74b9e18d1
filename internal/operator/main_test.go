package operator_test

import (
	"testing"

	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.WithAuditLog(), testenv.WithControllerManager())
}
