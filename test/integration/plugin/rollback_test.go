package plugin_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
	"github.com/realmkeeper/realmkeeper/test/framework/statuslist"
)

// After a rollback of etcd, it is unknown which clients got which indexes since the snapshot. The list to which
// their tokens refer therefore ends, and another one begins.
func TestRollbackEndsStatusLists(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	realm := install.Realm("rolled-back", func(r *v1beta1.Realm) { r.Spec.StatusList.Enabled = true })
	kept := install.ApiClient(cluster.Namespace(t), "kept", realm.Name)
	inst.Create(t, realm, kept)
	scenario.AwaitUsable(t, inst, kept)
	for _, test := range []struct {
		name         string
		bumpRevision int
	}{
		{"revisions repeat", 0},
		{"later revisions", 1_000_000_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := cluster.SaveSnapshot(t)
			lost := install.ApiClient(kept.Namespace, "lost", realm.Name)
			inst.Create(t, lost)
			scenario.AwaitUsable(t, inst, lost)
			before := use(t, inst, kept)
			ofLost := use(t, inst, lost)
			statuslist.Await(t, inst, ofLost.credentials, statuslist.Of(t, ofLost.token), statuslist.Valid)

			awaitBeacon(t, inst)
			cluster.RollBack(t, snapshot, test.bumpRevision)
			before.endsStatusList(t, inst)
			inst.AwaitTokens(t, ofLost.credentials, false)
			inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
			if got := realm.Status.StatusListURI; got != statuslist.Of(t, inst.AccessToken(t, before.credentials)).URI {
				t.Errorf("the list of the realm is %q", got)
			}
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(ofLost.credentials), &corev1.Secret{}); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("etcd was not rolled back: %v", err)
			}
		})
	}
}

// awaitBeacon waits until the operator writes the beacon, by which it notices a rollback.
func awaitBeacon(t *testing.T, inst *install.Installation) {
	t.Helper()
	version := ""
	install.Eventually(t, "a beacon", func() error {
		secret := &corev1.Secret{}
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: beacon.Name}, secret); err != nil {
			return err
		}
		if version == "" {
			version = secret.ResourceVersion
		}
		if secret.ResourceVersion == version {
			return errors.New("it has not changed")
		}
		return nil
	})
}

func use(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) used {
	t.Helper()
	credentials := inst.CredentialsSecret(t, c)
	return used{realm: c.Spec.RealmRef.Name, credentials: credentials, token: inst.AccessToken(t, credentials)}
}
