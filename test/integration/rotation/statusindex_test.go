//go:build nightly

package rotation_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
	"github.com/realmkeeper/realmkeeper/test/framework/statuslist"
)

// Indexes of revoked tokens and of deleted clients are released after the last token with them has expired.
func TestStatusIndexesAreReleased(t *testing.T) {
	cluster := env.Start(t)
	// The lifetime of tokens and of lists, and the allowance for clocks, are 11.2 s together. Only that of
	// tokens isn't scaled.
	inst := install.New(t, cluster, install.Settings{SpeedUp: 3600, DefaultTokenLifetime: "10s"})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	realm := install.Realm("acme", func(r *v1beta1.Realm) { r.Spec.StatusList.Enabled = true })
	team := cluster.Namespace(t)
	stays, deleted := install.ApiClient(team, "stays", realm.Name), install.ApiClient(team, "deleted", realm.Name)
	inst.Create(t, realm, stays, deleted)
	scenario.AwaitUsable(t, inst, stays)
	scenario.AwaitUsable(t, inst, deleted)
	credentials, ofDeleted := inst.CredentialsSecret(t, stays), inst.CredentialsSecret(t, deleted)
	revoked, orphaned := statuslist.Of(t, inst.AccessToken(t, credentials)), statuslist.Of(t, inst.AccessToken(t, ofDeleted))

	inst.Delete(t, deleted)
	began := time.Now()
	for n := range 3 {
		install.Change(t, inst, stays, func(c *v1beta1.ApiClient) {
			c.Spec.TokensValidAfterTime = &metav1.Time{Time: began.Add(time.Duration(n-10) * time.Second)}
		})
		inst.AwaitSettled(t)
	}
	for _, reference := range []statuslist.Reference{revoked, orphaned} {
		statuslist.Await(t, inst, credentials, reference, statuslist.Invalid)
	}
	inst.AwaitReady(t, stays, metav1.ConditionTrue, v1beta1.ReasonReady)
	scenario.AwaitUsable(t, inst, stays)
	install.Eventually(t, "the records of retired indexes to be deleted", func() error {
		indexes := &corev1.SecretList{}
		err := inst.Env.Client.List(t.Context(), indexes, client.InNamespace(inst.RecordsNamespace), client.MatchingLabels{v1beta1.RecordLabel: v1beta1.RecordIndex})
		if err == nil && len(indexes.Items) != 1 {
			err = fmt.Errorf("there are %d", len(indexes.Items))
		}
		return err
	})
	if held := time.Since(began); held < 10*time.Second {
		t.Errorf("the indexes were released after %s, when tokens with them were still valid", held)
	}
	current := statuslist.Of(t, inst.AccessToken(t, credentials))
	statuslist.Await(t, inst, credentials, current, statuslist.Valid)
	for _, released := range []statuslist.Reference{revoked, orphaned} {
		if released != current {
			statuslist.Await(t, inst, credentials, released, statuslist.Valid)
		}
	}
}
