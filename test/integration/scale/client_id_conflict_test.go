package scale_test

import (
	"errors"
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

var claimants = flag.Int("claimants", 20, "Number of ApiClients with the same client ID")

// If many ApiClients have the same client ID, one of them holds it, and the status of the others
// names that ApiClient. When it is deleted, another one gets the client ID. No status flaps.
func TestManyClientsWithSameClientID(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	reasons := watchReasons(t, inst, team)
	for i := range *claimants {
		inst.Create(t, install.ApiClient(team, fmt.Sprintf("claimant-%03d", i), "acme", func(c *v1alpha1.ApiClient) { c.Spec.ClientID = "billing" }))
	}
	for range 3 {
		var holder *v1alpha1.ApiClient
		install.Eventually(t, "one client to hold the ID and the others to name it", func() error {
			var err error
			holder, err = holderOf(t, inst, team)
			return err
		})
		inst.AwaitReady(t, holder, metav1.ConditionTrue, v1alpha1.ReasonReady)
		inst.AwaitTokens(t, inst.CredentialsSecret(t, holder), true)
		inst.Delete(t, holder)
	}
	for name, got := range reasons() {
		if want := "ClientIdConflict, Accepted"; !strings.HasSuffix(want, got) && got != "ClientIdConflict" {
			t.Errorf("the reasons of %s were %s", name, got)
		}
	}
}

// holderOf returns the only Accepted client in a namespace if all others report a conflict with it.
func holderOf(t *testing.T, inst *install.Installation, namespace string) (*v1alpha1.ApiClient, error) {
	t.Helper()
	all := &v1alpha1.ApiClientList{}
	if err := inst.Env.Client.List(t.Context(), all, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var holder *v1alpha1.ApiClient
	for i := range all.Items {
		if meta.IsStatusConditionTrue(all.Items[i].Status.Conditions, string(v1alpha1.ConditionAccepted)) {
			if holder != nil {
				t.Fatalf("%s and %s are both Accepted", holder.Name, all.Items[i].Name)
			}
			holder = &all.Items[i]
		}
	}
	if holder == nil {
		return nil, errors.New("no client is Accepted")
	}
	for i := range all.Items {
		accepted := meta.FindStatusCondition(all.Items[i].Status.Conditions, string(v1alpha1.ConditionAccepted))
		if all.Items[i].Name != holder.Name && (accepted == nil || accepted.Reason != string(v1alpha1.ReasonClientIDConflict) ||
			!strings.Contains(accepted.Message, "ApiClient "+namespace+"/"+holder.Name+" ")) {
			return nil, fmt.Errorf("accepted of %s is %v", all.Items[i].Name, accepted)
		}
	}
	return holder, nil
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
