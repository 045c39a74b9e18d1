package observers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestInstance checks that the Instance shows the installation, and that an idle installation doesn't write it.
func TestInstance(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	instance := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName}}

	other := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if err := cluster.Client.Create(t.Context(), other); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.name must be realmkeeper") {
		t.Errorf("creating another Instance: %v, want an error that names the only allowed name", err)
	}
	inst.StartOperator(t, "")
	inst.AwaitReady(t, instance, metav1.ConditionFalse, v1beta1.ReasonNoTokenServer)
	first, second := inst.StartTokenServer(t), inst.StartTokenServer(t)
	awaitServers(t, inst, instance, map[string]v1beta1.TokenServerState{first.Name: "Current", second.Name: "Current"})
	inst.AwaitReady(t, instance, metav1.ConditionTrue, v1beta1.ReasonReady)
	s := instance.Status
	if s.SystemNamespace != inst.Namespace || s.RecordsNamespace != inst.RecordsNamespace || !strings.HasPrefix(s.ServiceURL, "https://api."+install.Domain) {
		t.Errorf("the status has the namespaces %s and %s, and the URL %s", s.SystemNamespace, s.RecordsNamespace, s.ServiceURL)
	}
	if s.Version == "" || s.TokenServers[0].Version != s.Version || s.CertificateAuthority == nil || s.KeyEncryption != nil {
		t.Errorf("the status is %+v, want the versions and the CA", s)
	}
	if got := strings.Fields(cluster.Kubectl(t, "get", "realmkeeper", "--no-headers")); len(got) < 5 || got[1] != "True" || got[2] != "Ready" || got[3] != s.Version || got[4] != "2" {
		t.Errorf("kubectl get prints %q, want the condition, the version, and the number of token servers", got)
	}

	t.Run("idle", func(t *testing.T) {
		written := instance.ResourceVersion
		for range 2 {
			awaitHeartbeats(t, inst, first, second)
		}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(instance), instance); err != nil || instance.ResourceVersion != written {
			t.Errorf("the Instance was written between heartbeats: %v; %+v", err, instance)
		}
	})
	t.Run("deleted", func(t *testing.T) {
		deleted := instance.UID
		inst.Delete(t, instance)
		inst.AwaitReady(t, instance, metav1.ConditionTrue, v1beta1.ReasonReady)
		if instance.UID == deleted {
			t.Error("the Instance was not deleted")
		}
	})
	t.Run("token server stops", func(t *testing.T) {
		second.Freeze(t)
		inst.Create(t, install.Realm("late"))
		awaitServers(t, inst, instance, map[string]v1beta1.TokenServerState{first.Name: "Current", second.Name: "Behind"})
		inst.AwaitReady(t, instance, metav1.ConditionUnknown, v1beta1.ReasonProgressing)
		awaitServers(t, inst, instance, map[string]v1beta1.TokenServerState{first.Name: "Current", second.Name: "Stale"})
		inst.AwaitReady(t, instance, metav1.ConditionTrue, v1beta1.ReasonReady)
		second.Thaw(t)
		awaitServers(t, inst, instance, map[string]v1beta1.TokenServerState{first.Name: "Current", second.Name: "Current"})
	})
}

// TestInstanceShowsWhyPodsAreDenied checks that the Instance has the API server's reason if there are no Pods
// that could be described.
func TestInstanceShowsWhyPodsAreDenied(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	instance := &v1beta1.Instance{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.InstanceName}}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: inst.Namespace, Name: "compute"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse("4")}
	inst.Create(t, quota)
	install.Eventually(t, "the quota is enforced", func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || len(quota.Status.Hard) > 0 {
			return err
		}
		return errNotEnforced
	})
	inst.StartOperator(t, "")
	const want = "failed quota: compute: must specify limits.cpu for: token-server"
	awaitReadyMessage(t, inst, instance, want, true)

	inst.Delete(t, quota)
	awaitReadyMessage(t, inst, instance, want, false)
}

var (
	errNotEnforced = errors.New("the quota has no status")
	errOtherState  = errors.New("the Ready condition differs")
)

// awaitReadyMessage waits until the Instance isn't Ready because of NoTokenServer, with a message that contains
// the given text or doesn't.
func awaitReadyMessage(t *testing.T, inst *install.Installation, instance *v1beta1.Instance, text string, contained bool) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("a message with %q: %t", text, contained), func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(instance), instance); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(instance.Status.Conditions, string(v1beta1.ConditionReady))
		if ready == nil || ready.Reason != string(v1beta1.ReasonNoTokenServer) || strings.Contains(ready.Message, text) != contained {
			return fmt.Errorf("%w: %+v", errOtherState, ready)
		}
		return nil
	})
}

// awaitServers waits until the Instance shows the given states.
func awaitServers(t *testing.T, inst *install.Installation, instance *v1beta1.Instance, want map[string]v1beta1.TokenServerState) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("token servers %v", want), func() error {
		if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(instance), instance); err != nil {
			return err
		}
		got := map[string]v1beta1.TokenServerState{}
		for _, s := range instance.Status.TokenServers {
			got[s.Name] = s.State
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

var errNotRenewed = errors.New("the Lease was not renewed")

// awaitHeartbeats waits until each token server has renewed its Lease.
func awaitHeartbeats(t *testing.T, inst *install.Installation, servers ...*install.TokenServer) {
	t.Helper()
	versions := map[string]string{}
	for _, s := range servers {
		install.Eventually(t, "heartbeat of "+s.Name, func() error {
			lease := &coordinationv1.Lease{}
			if err := inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: heartbeat.LeaseName(s.Name)}, lease); err != nil {
				return err
			}
			if known, ok := versions[s.Name]; ok && known != lease.ResourceVersion {
				return nil
			}
			versions[s.Name] = lease.ResourceVersion
			return errNotRenewed
		})
	}
}
