package permissions_test

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

func lease(namespace, name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: key(namespace, name)}
}

// get returns an attempt to read an object.
func get(obj client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	}
}

func testTokenServerReadsOnlyRecords(t *testing.T, s *site) {
	inst, server, tenant := s.inst, s.server, s.inst.Env.Namespace(t)
	const recordName = "client-00000000-0000-4000-8000-000000000001"
	inst.Create(t, secret(tenant, "credentials", generated), secret(inst.RecordsNamespace, recordName, recorded))
	if err := server.List(t.Context(), &corev1.SecretList{}, client.InNamespace(inst.RecordsNamespace)); err != nil {
		t.Errorf("Failed to list the records: %v", err)
	}
	leader := lease(inst.Namespace, operatorAccount)
	deny(t, server, map[string]attempt{
		"read the key of the certificate authority": {get(secret(inst.Namespace, authority.SecretName, nil)), noPermission},
		"read the key of the serving certificate":   {get(secret(inst.Namespace, pki.ServingSecretName, nil)), noPermission},
		"read the credentials of a client":          {get(secret(tenant, "credentials", nil)), noPermission},
		"list the Secrets of the system namespace": {func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &corev1.SecretList{}, client.InNamespace(inst.Namespace))
		}, noPermission},
		"list all Secrets":        {func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.SecretList{}) }, noPermission},
		"change a record":         {patch(secret(inst.RecordsNamespace, recordName, nil), changeData), noPermission},
		"create a record":         {create(secret(inst.RecordsNamespace, "realm-00000000-0000-4000-8000-000000000000", recorded)), noPermission},
		"read the leader Lease":   {get(leader), noPermission},
		"take the leader Lease":   {patch(leader, `{"spec": {"holderIdentity": "server-0"}}`), noPermission},
		"create the leader Lease": {create(leader), noPermission},
		"delete the leader Lease": {remove(leader), noPermission},
		"list ConfigMaps": {func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(inst.RecordsNamespace))
		}, noPermission},
		"read a ConfigMap of the system namespace": {get(configMap(inst.Namespace, "kube-root-ca.crt")), noPermission},
		"list heartbeats": {func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &coordinationv1.LeaseList{}, client.InNamespace(inst.RecordsNamespace))
		}, noPermission},
	})
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: key(namespace, name)}
}

// replace returns an attempt to update an object, regardless of its version.
func replace(obj client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Update(ctx, obj) }
}

func testTokenServerWritesOnlyItsUsageReports(t *testing.T, s *site) {
	inst, server, own, other := s.inst, s.server, s.own, s.other
	report := func(server string, number int) *corev1.ConfigMap {
		return configMap(inst.RecordsNamespace, usage.Name(server, number))
	}
	dry := client.NewDryRunClient(server)
	awaitDenied(t, "policy for the token servers", func() error { return dry.Create(t.Context(), configMap(inst.RecordsNamespace, "probe")) })

	for n := range usage.MaxReports {
		for _, do := range []func(context.Context, client.Client) error{create(report(own.Name, n)), get(report(own.Name, n)), replace(report(own.Name, n))} {
			if err := do(t.Context(), server); err != nil {
				t.Errorf("Failed to write the server's own report: %v", err)
			}
		}
	}
	inst.Create(t, report(other.Name, 0))
	// The operator writes this ConfigMap soon after it starts. Before that, the requests below would
	// fail because it doesn't exist, and not because they are denied.
	state := configMap(inst.RecordsNamespace, "usage")
	install.Eventually(t, "the operator's ConfigMap", func() error {
		return inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(state), state.DeepCopy())
	})
	want := func(verb, name string) string {
		return deniedByPolicy + "A Realmkeeper token server must not " + verb + " ConfigMap " + inst.RecordsNamespace + "/" + name + ". "
	}
	attempts := map[string]attempt{
		"change the report of another server":     {replace(report(other.Name, 0)), want("update", usage.Name(other.Name, 0))},
		"change the ConfigMap of the operator":    {replace(configMap(inst.RecordsNamespace, "usage")), want("update", "usage")},
		"delete its own report":                   {remove(report(own.Name, 0)), noPermission},
		"patch its own report":                    {patch(report(own.Name, 0), `{"data": {}}`), noPermission},
		"create a report in the system namespace": {create(configMap(inst.Namespace, usage.Name(own.Name, 0))), noPermission},
		"create a record with the name of a report": {
			create(secret(inst.RecordsNamespace, usage.Name(own.Name, 0), recorded)), noPermission,
		},
	}
	for what, name := range map[string]string{
		"another server":          usage.Name(other.Name, 1),
		"a server that is prefix": "token-server-server-usage-0",
		"its Lease":               heartbeat.LeaseName(own.Name),
		"a number out of range":   heartbeat.LeaseName(own.Name) + "-usage-16",
		"a number with a zero":    heartbeat.LeaseName(own.Name) + "-usage-00",
		"no number":               heartbeat.LeaseName(own.Name) + "-usage-x",
		"another end":             heartbeat.LeaseName(own.Name) + "-usage-1-usage-0",
	} {
		attempts["create a report with the name of "+what] = attempt{create(configMap(inst.RecordsNamespace, name)), want("create", name)}
	}
	deny(t, server, attempts)
	unbound := as(t, inst, config.TokenServiceName, "")
	deny(t, unbound, map[string]attempt{
		"create a report with a token that is not bound to a Pod": {
			create(report(other.Name, 1)), want("create", usage.Name(other.Name, 1)) + "Its token must be bound to its Pod.",
		},
	})
}

func testTokenServerWritesOnlyItsLease(t *testing.T, s *site) {
	inst, server, own, other := s.inst, s.server, s.own, s.other
	ownLease, otherLease := heartbeat.LeaseName(own.Name), heartbeat.LeaseName(other.Name)
	dry := client.NewDryRunClient(server)
	awaitDenied(t, "policy for the token servers", func() error { return dry.Create(t.Context(), lease(inst.RecordsNamespace, "probe")) })

	const renew = `{"spec": {"leaseDurationSeconds": 30}}`
	for _, do := range []func(context.Context, client.Client) error{
		create(lease(inst.RecordsNamespace, ownLease)),
		patch(lease(inst.RecordsNamespace, ownLease), renew),
		remove(lease(inst.RecordsNamespace, ownLease)),
	} {
		if err := do(t.Context(), server); err != nil {
			t.Errorf("Failed to write the server's own Lease: %v", err)
		}
	}
	inst.Create(t, lease(inst.RecordsNamespace, otherLease))
	want := func(verb, name string) string {
		return deniedByPolicy + "A Realmkeeper token server must not " + verb + " Lease " + inst.RecordsNamespace + "/" + name + ". "
	}
	deny(t, server, map[string]attempt{
		"create a Lease for another server":  {create(lease(inst.RecordsNamespace, "token-server-server-2")), want("create", "token-server-server-2")},
		"change the Lease of another server": {patch(lease(inst.RecordsNamespace, otherLease), renew), want("update", otherLease)},
		"delete the Lease of another server": {remove(lease(inst.RecordsNamespace, otherLease)), want("delete", otherLease)},
		"mark another server as dead": {
			patch(lease(inst.RecordsNamespace, otherLease), `{"metadata": {"annotations": {"`+heartbeat.DeadAnnotation+`": "2026-03-01T12:00:00.000000Z"}}}`), want("update", otherLease),
		},
		"create the Lease of the operator": {create(lease(inst.RecordsNamespace, "operator")), want("create", "operator")},
	})
	unbound := as(t, inst, config.TokenServiceName, "")
	deny(t, unbound, map[string]attempt{
		"create a Lease with a token that is not bound to a Pod": {
			create(lease(inst.RecordsNamespace, ownLease)), want("create", ownLease) + "Its token must be bound to its Pod.",
		},
	})
}
