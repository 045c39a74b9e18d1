// Package backup_test backs up an installation and restores it in other control planes: with the
// plugin, and from a snapshot of etcd.
package backup_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestMain(m *testing.M) { env.Main(m, env.WithSnapshots()) }
