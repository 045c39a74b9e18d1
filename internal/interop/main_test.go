package interop_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
