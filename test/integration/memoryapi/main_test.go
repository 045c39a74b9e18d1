// Package memoryapi_test compares the API in memory with a real API server.
package memoryapi_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) {
	env.Main(m)
}
