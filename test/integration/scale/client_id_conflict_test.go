package scale_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Of two hundred clients with one client id the oldest has it, and the others are told who
// that is; when it goes the next one moves up. Nobody's state goes back and forth meanwhile.
func TestManyRivals(t *testing.T) {
	const rivals = 200
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	turns := watchTurns(t, inst, team)
	var all []*v1alpha1.ApiClient
	for i := range rivals {
		c := install.ApiClient(team, fmt.Sprintf("rival-%03d", i), "acme", func(c *v1alpha1.ApiClient) { c.Spec.ClientID = "billing" })
		inst.Create(t, c)
		all = append(all, c)
	}
	for winner := range 3 {
		inst.AwaitReady(t, all[winner], metav1.ConditionTrue, v1alpha1.ReasonReady)
		for _, c := range all[winner+1:] {
			install.Eventually(t, c.Name+" to yield to "+all[winner].Name, func() error {
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
		inst.AwaitTokens(t, inst.ConsumerSecret(t, all[winner]), true)
		inst.Delete(t, all[winner])
	}
	for name, got := range turns() {
		if want := "ClientIdConflict, Accepted"; !strings.HasSuffix(want, got) && got != "ClientIdConflict" {
			t.Errorf("%s was %s", name, got)
		}
	}
}

// watchTurns notes from now on the reasons of Accepted that each client in the namespace has, one
// after the other. The function that it returns ends that and returns them.
func watchTurns(t *testing.T, inst *install.Installation, namespace string) func() map[string]string {
	t.Helper()
	events, err := inst.Env.Client.Watch(t.Context(), &v1alpha1.ApiClientList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	turns := map[string]string{}
	running.Go(func() {
		for event := range events.ResultChan() {
			c, ok := event.Object.(*v1alpha1.ApiClient)
			if !ok {
				return // stopping ends the watch with an error
			}
			accepted := meta.FindStatusCondition(c.Status.Conditions, string(v1alpha1.ConditionAccepted))
			switch before := turns[c.Name]; {
			case accepted == nil || strings.HasSuffix(before, accepted.Reason):
			case before == "":
				turns[c.Name] = accepted.Reason
			default:
				turns[c.Name] += ", " + accepted.Reason
			}
		}
	})
	stop := sync.OnceFunc(func() { events.Stop(); running.Wait() })
	t.Cleanup(stop)
	return func() map[string]string { stop(); return turns }
}
