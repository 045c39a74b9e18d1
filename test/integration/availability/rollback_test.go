//go:build nightly

package availability_test

import (
	"errors"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// If etcd is rolled back while no operator leads, the next leader finds it, because it has seen a later beacon.
func TestRollbackWithoutLeader(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	former := inst.StartReplica(t, "operator-a", "")
	awaitLeader(t, inst, "operator-a")
	next := inst.StartReplica(t, "operator-b", "")
	next.AwaitReady(t)
	version := beaconOf(t, inst).ResourceVersion
	snapshot := cluster.SaveSnapshot(t)
	for range 2 { // When the second has been written, the other operator has seen the first.
		install.Eventually(t, "the next beacon", func() error {
			if beaconOf(t, inst).ResourceVersion == version {
				return errors.New("it has not changed")
			}
			return nil
		})
		version = beaconOf(t, inst).ResourceVersion
	}
	if at := beacon.Read(beaconOf(t, inst)).RolledBackAt; !at.IsZero() {
		t.Fatalf("rolled back at %s before the rollback", at)
	}
	former.Kill(t)
	cluster.RollBack(t, snapshot, 0)
	awaitLeader(t, inst, "operator-b")
	install.Eventually(t, "a beacon that says when etcd was rolled back", func() error {
		if beacon.Read(beaconOf(t, inst)).RolledBackAt.IsZero() {
			return errors.New("it doesn't")
		}
		return nil
	})
	former.Start(t)
}
