package operator_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.WithAuditLog(), testenv.WithControllerManager())
}
