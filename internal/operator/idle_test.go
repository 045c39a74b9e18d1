package operator_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/config"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A second run over an unchanged cluster writes nothing, as the API server counts.
func TestSecondRunWritesNothing(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	namespace := env.Namespace(t)
	install.Create(t, testinstall.Realm("acme"))
	var clients []*v1alpha1.ApiClient
	for _, name := range []string{"a", "b", "c", "d"} {
		c := testinstall.ApiClient(namespace, name, "acme")
		c.Spec.Suspend = name == "d"
		install.Create(t, c)
		clients = append(clients, c)
	}
	for _, c := range clients[:3] {
		converges(t, install, c)
	}
	install.AwaitReady(t, clients[3], "False", v1alpha1.ReasonSuspended)
	install.StopOperator(t)
	before := len(env.Writes(t))
	if !slices.ContainsFunc(env.Writes(t), byOperator) {
		t.Fatal("no write of the first run is known as the operator's")
	}

	install.StartOperator(t, "")
	// What the second run shall not do is done when it has come to something new.
	probe := testinstall.ApiClient(namespace, "probe", "nowhere")
	install.Create(t, probe)
	install.AwaitReady(t, probe, "False", v1alpha1.ReasonRealmNotFound)
	install.AwaitSettled(t)
	// So it is with the token service.
	budget := &policyv1.PodDisruptionBudget{}
	budget.Namespace, budget.Name = install.Namespace, config.TokenServiceName
	install.Delete(t, budget)
	testinstall.Eventually(t, "the PodDisruptionBudget to come back", func() error {
		return env.Client.Get(t.Context(), client.ObjectKeyFromObject(budget), budget)
	})

	// The probe's Events are named like it.
	heartbeats := coordinationv1.SchemeGroupVersion.WithResource("leases")
	for _, write := range env.Writes(t)[before:] {
		ref := write.ObjectRef
		resource := schema.GroupVersionResource{Group: ref.APIGroup, Version: ref.APIVersion, Resource: ref.Resource}
		if resource == heartbeats || ref.Name == "probe" || strings.HasPrefix(ref.Name, "probe.") || ref.Resource == "poddisruptionbudgets" || !byOperator(write) {
			continue
		}
		told, _ := json.Marshal(ref)
		t.Errorf("the second run writes: %s %s", write.Verb, told)
	}
}

func byOperator(write auditv1.Event) bool { return strings.HasPrefix(write.UserAgent, "operator/") }
