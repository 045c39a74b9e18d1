package availability_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// An operator that restarts in an unchanged cluster writes nothing. The test checks this in the
// audit log.
func TestRestartedOperatorWritesNothing(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	namespace := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	var clients []*v1alpha1.ApiClient
	for _, name := range []string{"a", "b", "c", "d"} {
		c := install.ApiClient(namespace, name, "acme")
		c.Spec.Suspend = name == "d"
		inst.Create(t, c)
		clients = append(clients, c)
	}
	for _, c := range clients[:3] {
		scenario.AwaitUsable(t, inst, c)
	}
	inst.AwaitReady(t, clients[3], "False", v1alpha1.ReasonSuspended)
	inst.StopOperator(t)
	before := len(cluster.Writes(t))
	if !slices.ContainsFunc(cluster.Writes(t), scenario.ByOperator) {
		t.Fatal("the audit log contains no write by the operator")
	}

	inst.StartOperator(t, "")
	// Once the operator has reconciled this new object, it has also handled all existing ones.
	probe := install.ApiClient(namespace, "probe", "missing")
	inst.Create(t, probe)
	inst.AwaitReady(t, probe, "False", v1alpha1.ReasonRealmNotFound)
	inst.AwaitSettled(t)
	// The same applies to the token service.
	budget := &policyv1.PodDisruptionBudget{}
	budget.Namespace, budget.Name = inst.Namespace, config.TokenServiceName
	inst.Delete(t, budget)
	install.Eventually(t, "the PodDisruptionBudget to be restored", func() error {
		return cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(budget), budget)
	})

	// The names of Events about the probe start with the probe's name.
	heartbeats := coordinationv1.SchemeGroupVersion.WithResource("leases")
	for _, write := range cluster.Writes(t)[before:] {
		ref := write.ObjectRef
		resource := schema.GroupVersionResource{Group: ref.APIGroup, Version: ref.APIVersion, Resource: ref.Resource}
		if resource == heartbeats || ref.Name == "probe" || strings.HasPrefix(ref.Name, "probe.") || ref.Resource == "poddisruptionbudgets" || !scenario.ByOperator(write) {
			continue
		}
		object, _ := json.Marshal(ref)
		t.Errorf("the restarted operator made a write: %s %s", write.Verb, object)
	}
}
