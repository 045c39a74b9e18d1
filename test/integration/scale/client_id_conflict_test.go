package scale_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var claimants = flag.Int("claimants", 60, "Number of ApiClients with the same client ID")

// If many ApiClients have the same client ID, the oldest one holds it, and the status of the others
// names that ApiClient. When it is deleted, the next oldest gets the client ID. No status flaps.
func TestManyClientsWithSameClientID(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	reasons := watchReasons(t, inst, team)
	var all []*v1alpha1.ApiClient
	for i := range *claimants {
		c := install.ApiClient(team, fmt.Sprintf("claimant-%03d", i), "acme", func(c *v1alpha1.ApiClient) { c.Spec.ClientID = "billing" })
		inst.Create(t, c)
		all = append(all, c)
	}
	for winner := range 3 {
		inst.AwaitReady(t, all[winner], metav1.ConditionTrue, v1alpha1.ReasonReady)
		for _, c := range all[winner+1:] {
			install.Eventually(t, c.Name+" to report a conflict with "+all[winner].Name, func() error {
				if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
					return err
				}
				accepted := meta.FindStatusCondition(c.Status.Conditions, string(v1alpha1.ConditionAccepted))
				if accepted == nil || accepted.Reason != string(v1alpha1.ReasonClientIDConflict) || !strings.Contains(accepted.Message, team+"/"+all[winner].Name+".") {
					return fmt.Errorf("Accepted is %v", accepted)
				}
				return nil
			})
		}
		inst.AwaitTokens(t, inst.CredentialsSecret(t, all[winner]), true)
		inst.Delete(t, all[winner])
	}
	for name, got := range reasons() {
		if want := "ClientIdConflict, Accepted"; !strings.HasSuffix(want, got) && got != "ClientIdConflict" {
			t.Errorf("the reasons of %s were %s", name, got)
		}
	}
}

// watchReasons records how the reason of each client's Accepted condition changes. The returned
// function stops recording and returns the reasons by client.
func watchReasons(t *testing.T, inst *install.Installation, namespace string) func() map[string]string {
	t.Helper()
	events, err := inst.Env.Client.Watch(t.Context(), &v1alpha1.ApiClientList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	reasons := map[string]string{}
	running.Go(func() {
		for event := range events.ResultChan() {
			c, ok := event.Object.(*v1alpha1.ApiClient)
			if !ok {
				return // Stop ends the watch with an error
			}
			accepted := meta.FindStatusCondition(c.Status.Conditions, string(v1alpha1.ConditionAccepted))
			switch before := reasons[c.Name]; {
			case accepted == nil || strings.HasSuffix(before, accepted.Reason):
			case before == "":
				reasons[c.Name] = accepted.Reason
			default:
				reasons[c.Name] += ", " + accepted.Reason
			}
		}
	})
	stop := sync.OnceFunc(func() { events.Stop(); running.Wait() })
	t.Cleanup(stop)
	return func() map[string]string { stop(); return reasons }
}
