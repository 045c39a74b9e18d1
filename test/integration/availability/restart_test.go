package availability_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// The last known good version of a corrupt record also survives a restart.
func TestRestartKeepsLastKnownGoodRecord(t *testing.T) {
	cluster := env.Start(t)
	inst, realm, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)
	inst.StopOperator(t)
	corrupt := &corev1.Secret{}
	corrupt.Namespace, corrupt.Name = inst.RecordsNamespace, record.RealmSecretName(realm.UID)
	install.Change(t, inst, corrupt, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte("corrupt") })

	for _, s := range inst.Servers() {
		install.Eventually(t, s.Name+" to detect the corrupt record", func() error {
			if got := s.Metric(t, "realmkeeper_registry_unreadable_records"); got != "1" {
				return fmt.Errorf("it reports %s unreadable records", got)
			}
			return nil
		})
		s.KillAndRestart(t)
		s.AwaitReady(t)
	}
	inst.AwaitTokens(t, credentials, true)
}
