package availability_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/leader"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// newPod creates a Pod for the operators that are started next.
func newPod(t *testing.T, inst *install.Installation, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: inst.Namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "realmkeeper"}}},
	}
	// A new namespace has no default service account at first, without which Pods are rejected.
	install.Eventually(t, "Pod "+name+" to be created", func() error {
		return client.IgnoreAlreadyExists(inst.Env.Client.Create(t.Context(), pod.DeepCopy()))
	})
	inst.Pod = name
	return pod
}

// awaitLeader waits until an operator in the given Pod holds the Lease.
func awaitLeader(t *testing.T, inst *install.Installation, pod string) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{}
	install.Eventually(t, pod+" to hold the Lease", func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.Namespace, Name: leader.LeaseName}, lease); err != nil {
			return err
		}
		if holder := *lease.Spec.HolderIdentity; !strings.HasPrefix(holder, pod+"_") {
			return fmt.Errorf("the holder is %q", holder)
		}
		return nil
	})
	return lease
}

// A standby operator takes over from a leader whose Pod is gone before the Lease expires.
func TestStandbyTakesOverFromDeletedPod(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.LeaderElection = true
	first := newPod(t, inst, "operator-a")
	inst.StartOperator(t, "")
	awaitLeader(t, inst, first.Name)
	second := newPod(t, inst, "operator-b")
	inst.StartSecondOperator(t, "")
	inst.Create(t, install.Realm("acme"))
	inst.AwaitReady(t, install.Realm("acme"), metav1.ConditionFalse, v1alpha1.ReasonNoTokenServer)

	thaw := inst.FreezeOperator(t)
	defer thaw()
	before := awaitLeader(t, inst, first.Name)
	inst.Delete(t, first)
	after := awaitLeader(t, inst, second.Name)
	if took := after.Spec.AcquireTime.Sub(before.Spec.RenewTime.Time); took > 11*time.Second {
		t.Errorf("the standby operator took over %s after the last renewal", took)
	}
}

// A standby operator whose ApiClients are older than their records doesn't undo a suspension when it
// becomes the leader.
func TestStandbyWithOldCacheDecidesNothing(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.LeaderElection = true
	first := newPod(t, inst, "operator-a")
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	c := install.ApiClient(cluster.Namespace(t), "billing", "acme")
	inst.Create(t, c)
	scenario.AwaitUsable(t, inst, c)
	credentials := inst.CredentialsSecret(t, c)
	awaitLeader(t, inst, first.Name)

	second := newPod(t, inst, "operator-b")
	proxy := inst.StartFaultProxy(t, install.Faults{})
	inst.StartSecondOperator(t, inst.KubeconfigFor(t, proxy.URL))
	inst.AwaitQuiet(t, proxy)
	thaw := proxy.FreezeWatches("apiclients")
	defer thaw()
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitTokens(t, credentials, false)
	inst.StopOperator(t)
	awaitLeader(t, inst, second.Name)
	realm := &v1alpha1.Realm{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: "acme"}, realm); err != nil {
		t.Fatal(err)
	}
	disabled := func() error {
		secret := &corev1.Secret{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.ClientSecretName(realm.UID, c.EffectiveClientID())}, secret); err != nil {
			return err
		}
		body, err := record.ReadClient(secret)
		if err == nil && !body.Disabled {
			err = fmt.Errorf("the record allows tokens")
		}
		return err
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		if err := disabled(); err != nil {
			t.Fatalf("%s after the takeover: %v", time.Since(began), err)
		}
	}
	thaw()
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
	inst.AwaitTokens(t, credentials, true)
}

// An operator that can't reach the API server loses its Lease, waits, and starts over in place.
func TestOperatorStartsOver(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.LeaderElection = true
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.Create(t, install.Realm("acme"))
	first := install.ApiClient(cluster.Namespace(t), "first", "acme")
	inst.Create(t, first)
	scenario.AwaitUsable(t, inst, first)

	cluster.StopAPIServer(t)
	install.Eventually(t, "the operator to lose its Lease", func() error {
		if !bytes.Contains(inst.OperatorLog(t), []byte("Operator failed, will start over")) {
			return fmt.Errorf("the log doesn't say so")
		}
		return nil
	})
	cluster.StartAPIServer(t)
	second := install.ApiClient(first.Namespace, "second", "acme")
	inst.Create(t, second)
	scenario.AwaitUsable(t, inst, second)
	install.Change(t, inst, first, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitTokens(t, inst.CredentialsSecret(t, first), false)
}
