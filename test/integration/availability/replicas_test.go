package availability_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/contract/leader"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// During a rolling update, an operator that can't list one of its resources never becomes ready, so that the former
// one keeps running. It never leads either, even if no other operator does, until it can list.
func TestOperatorThatCanNotList(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{})
	former := inst.StartReplica(t, "operator-a", "")
	former.AwaitReady(t)
	awaitLeader(t, inst, "operator-a")
	allow := denyList(t, inst, "policy", "poddisruptionbudgets")
	next := inst.StartReplica(t, "operator-b", "")
	began := leaseOf(t, inst)
	install.Eventually(t, "more renewals", func() error {
		if err := next.Ready(t.Context()); err == nil {
			t.Fatal("An operator that can't list is ready")
		}
		lease := leaseOf(t, inst)
		if since := lease.Spec.RenewTime.Sub(began.Spec.RenewTime.Time); since < 3*time.Second {
			return fmt.Errorf("the last one is %s after the first one", since)
		}
		return nil
	})
	if holder := *leaseOf(t, inst).Spec.HolderIdentity; !strings.HasPrefix(holder, "operator-a_") || former.Ready(t.Context()) != nil {
		t.Errorf("%s leads, and the former operator is ready: %v", holder, former.Ready(t.Context()))
	}

	former.Stop(t) // It releases the Lease.
	for stopped := time.Now(); time.Since(stopped) < 5*time.Second; <-time.After(200 * time.Millisecond) {
		if holder := *leaseOf(t, inst).Spec.HolderIdentity; holder != "" || next.Ready(t.Context()) == nil {
			t.Fatalf("An operator that can't list is ready, or leads: the holder is %q", holder)
		}
	}
	allow()
	next.AwaitReady(t)
	awaitLeader(t, inst, "operator-b")
}

// denyList revokes the operator's permission to list a resource in the system namespace, until allow is called.
func denyList(t *testing.T, inst *install.Installation, group, resource string) (allow func()) {
	t.Helper()
	key := client.ObjectKey{Namespace: inst.Namespace, Name: "realmkeeper-operator"}
	change := func(verbs func([]string) []string) {
		role := &rbacv1.Role{}
		if err := inst.Env.Client.Get(t.Context(), key, role); err != nil {
			t.Fatal(err)
		}
		for i := range role.Rules {
			if slices.Contains(role.Rules[i].Resources, resource) {
				role.Rules[i].Verbs = verbs(role.Rules[i].Verbs)
			}
		}
		if err := inst.Env.Client.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
	}
	change(func(verbs []string) []string {
		return slices.DeleteFunc(verbs, func(verb string) bool { return verb == "list" || verb == "watch" })
	})
	install.Eventually(t, "the API server to load the role", func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + inst.Namespace + ":realmkeeper-operator",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: inst.Namespace, Group: group, Resource: resource, Verb: "list"},
		}}
		if err := inst.Env.Client.Create(t.Context(), review); err != nil || review.Status.Allowed {
			return fmt.Errorf("it still allows it, or %w", err)
		}
		return nil
	})
	return func() { change(func(verbs []string) []string { return append(verbs, "list", "watch") }) }
}

// awaitLeader waits until the operator in the Pod leads: it has written the beacon since it got the Lease.
func awaitLeader(t *testing.T, inst *install.Installation, pod string) {
	t.Helper()
	install.Eventually(t, pod+" to lead", func() error {
		lease, written := leaseOf(t, inst), beacon.Read(beaconOf(t, inst)).Time
		if lease.Spec.HolderIdentity == nil || !strings.HasPrefix(*lease.Spec.HolderIdentity, pod+"_") || !written.After(lease.Spec.AcquireTime.Time) {
			return fmt.Errorf("the Lease is %+v, the last beacon was written at %s", lease.Spec, written)
		}
		return nil
	})
}

// leaseOf returns the leader Lease; an empty one if there is none.
func leaseOf(t *testing.T, inst *install.Installation) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.Namespace, Name: leader.LeaseName}, lease); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return lease
}

// beaconOf returns the beacon; an empty Secret if there is none.
func beaconOf(t *testing.T, inst *install.Installation) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: beacon.Name}, secret); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return secret
}
