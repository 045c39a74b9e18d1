package scale_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// If many ApiClients list the same subject, all of them are Accepted all the time, and one holds the
// subject. When it is deleted, another one holds it.
func TestManyClientsWithSameSubject(t *testing.T) {
	const subject = "repo:acme/contested"
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	ci := issuer.NewStatic(t, ciName, "https://ci.example.com")
	realm := install.Realm("acme", func(r *v1alpha1.Realm) { r.Spec.TrustedIssuers = []v1alpha1.TrustedIssuer{ci.Trusted(t)} })
	inst.Create(t, realm)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	reasons := watchReasons(t, inst, team)
	clients := map[types.UID]*v1alpha1.ApiClient{}
	for i := range *claimants {
		c := install.ApiClient(team, fmt.Sprintf("claimant-%03d", i), "acme", func(c *v1alpha1.ApiClient) {
			c.Spec.FederatedIdentities = []v1alpha1.FederatedIdentity{{Issuer: ciName, Subject: subject}}
		})
		inst.Create(t, c)
		clients[c.UID] = c
	}
	name := client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.SubjectSecretName(realm.UID, ci.URL(), subject)}
	for range 3 {
		var held record.Subject
		install.Eventually(t, "one client to hold the subject", func() error {
			stored := &corev1.Secret{}
			if err := cluster.Client.Get(t.Context(), name, stored); err != nil {
				return err
			}
			var err error
			if held, err = record.ReadSubject(stored); err == nil && clients[held.UID] == nil {
				err = fmt.Errorf("the holder is %+v", held)
			}
			return err
		})
		for _, c := range clients {
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			if c.UID != held.UID {
				install.Eventually(t, "the status to name the holder", func() error {
					if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
						return err
					}
					accepted := meta.FindStatusCondition(c.Status.Conditions, string(v1alpha1.ConditionAccepted))
					if holder := "(" + held.Namespace + "/" + held.Name + ")"; !strings.Contains(accepted.Message, holder) {
						return fmt.Errorf("the message of %s is %q, want it to contain %s", c.Name, accepted.Message, holder)
					}
					return nil
				})
			}
		}
		inst.Delete(t, clients[held.UID])
		delete(clients, held.UID)
	}
	for name, got := range reasons() {
		if got != "Accepted" {
			t.Errorf("the reasons of %s were %s", name, got)
		}
	}
}
