package rotation_test

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var errWaiting = errors.New("the new secret is not delivered")

// After a long outage of the API server, all Leases are old. An operator that starts then waits for the
// token servers that have not returned yet, until it has marked their Leases as dead.
func TestOldLeasesCountAfterOutage(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{DefaultTokenLifetime: "10s", SpeedUp: 300})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	link := inst.StartLink(t)
	late := inst.LaunchTokenServer(t, inst.KubeconfigFor(t, link.URL))
	late.AwaitReady(t)
	c := install.ApiClient(cluster.Namespace(t), "billing", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	inst.Create(t, install.Realm("acme"), c)
	scenario.AwaitUsable(t, inst, c)
	before := scenario.ClientSecret(inst.CredentialsSecret(t, c))

	inst.StopOperator(t)
	link.Refuse()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: inst.RecordsNamespace, Name: heartbeat.LeaseName(late.Name)}}
	install.Change(t, inst, lease, func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-time.Hour))) })
	inst.StartOperator(t, "")
	scenario.RotateSecret(t, inst, c)
	install.Eventually(t, "the new secret", func() error {
		delivered := scenario.ClientSecret(inst.CredentialsSecret(t, c)) != before
		if !delivered {
			return errWaiting
		}
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)
		if err != nil {
			return client.IgnoreNotFound(err) // A Lease that is missing was marked, and then deleted.
		}
		if beat, err := heartbeat.Parse(lease); err != nil || !beat.Dead {
			t.Fatalf("the new secret was delivered while %s counted as live: %v", late.Name, err)
		}
		return nil
	})
}
