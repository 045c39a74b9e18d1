//go:build scale

package scale_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// measureStatuses counts the ApiClients whose status changes although nothing has changed for them: while
// token servers are replaced, and after an outage of the API server that ends the operator's leadership.
// measureRestart counts the writes of a restarted operator.
func measureStatuses(t *testing.T, inst *install.Installation, clients int) {
	t.Helper()
	for _, disruption := range []struct {
		name    string
		disrupt func()
	}{
		{"a token server joins and another one leaves", func() {
			leaving := inst.StartTokenServer(t)
			inst.StartTokenServer(t)
			leaving.Terminate(t)
		}},
		{"outage of the API server for 20 s", func() {
			before := reconcilesOf(t, inst)
			inst.Env.StopAPIServer(t)
			<-time.After(20 * time.Second)
			inst.Env.StartAPIServer(t)
			for tick := time.Tick(250 * time.Millisecond); reconcilesOf(t, inst) < before+clients; {
				<-tick // The operator reconciles everything after an outage.
			}
		}},
	} {
		before := versions(t, inst)
		disruption.disrupt()
		awaitHeartbeats(t, inst, 2)
		changed := 0
		for name, now := range versions(t, inst) {
			if now.ResourceVersion != before[name].ResourceVersion {
				if changed++; changed <= 3 {
					t.Logf("%s: the conditions of %s were %+v and are %+v", disruption.name, name, before[name].Status.Conditions, now.Status.Conditions)
				}
			}
		}
		addRow(t, changed == 0, fmt.Sprintf("%s, statuses of %d ApiClients that change", disruption.name, clients), strconv.Itoa(changed), "none")
	}
}

// versions returns all ApiClients. The resource version shows whether a status has changed and changed back.
func versions(t *testing.T, inst *install.Installation) map[types.NamespacedName]v1beta1.ApiClient {
	t.Helper()
	list := &v1beta1.ApiClientList{}
	if err := inst.Env.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	all := map[types.NamespacedName]v1beta1.ApiClient{}
	for i := range list.Items {
		all[types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}] = list.Items[i]
	}
	return all
}
