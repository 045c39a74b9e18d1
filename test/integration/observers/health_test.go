package observers_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// health is the status that each GitOps tool derives from an object.
type health struct {
	// Kstatus is the status in kstatus. Flux uses it with wait: true.
	Kstatus status.Status
	// Flux is the status in Flux with the expressions in docs/gitops/repository.
	Flux status.Status
	// Argo is the status in Argo CD with docs/gitops/argocd.
	Argo string
}

var (
	healthy     = health{status.CurrentStatus, status.CurrentStatus, "Healthy"}
	progressing = health{status.InProgressStatus, status.InProgressStatus, "Progressing"}
	failed      = health{status.FailedStatus, status.FailedStatus, "Degraded"}
	suspended   = health{status.InProgressStatus, status.CurrentStatus, "Suspended"}
)

// TestGitOpsToolsReportHealth checks which status GitOps tools report for each kind of state of a Realm
// and an ApiClient. The tools must distinguish objects that are ready, that will become ready
// without user action, that need user action, and that are suspended by their manifest.
func TestGitOpsToolsReportHealth(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	team := cluster.Namespace(t)
	realm := install.Realm("acme", func(r *v1beta1.Realm) {
		r.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{Names: []string{team}}
		r.Spec.Scopes = []string{"read"}
	})
	newClient := func(name string, change ...func(*v1beta1.ApiClient)) *v1beta1.ApiClient {
		return install.ApiClient(team, name, "acme", change...)
	}
	good := newClient("good")

	inst.Create(t, realm, good)
	wantHealth(t, inst, realm, progressing) // no operator is running yet
	wantHealth(t, inst, good, progressing)

	inst.StartOperator(t, "")
	inst.AwaitReady(t, realm, metav1.ConditionFalse, v1beta1.ReasonNoTokenServer)
	wantHealth(t, inst, realm, progressing)
	inst.AwaitReady(t, good, metav1.ConditionFalse, v1beta1.ReasonNoTokenServer)
	wantHealth(t, inst, good, progressing)

	inst.StartTokenServer(t)
	scenario.AwaitUsable(t, inst, good)
	wantHealth(t, inst, realm, healthy)
	wantHealth(t, inst, good, healthy)

	suspend := func(c *v1beta1.ApiClient) { c.Spec.Suspend = true }
	inst.Create(t, install.Realm("idle", func(r *v1beta1.Realm) { r.Spec.Suspend = true }))
	for name, test := range map[string]struct {
		obj    client.Object
		reason v1beta1.ConditionReason
		want   health
	}{
		"suspended realm":  {install.Realm("paused", func(r *v1beta1.Realm) { r.Spec.Suspend = true }), v1beta1.ReasonSuspended, suspended},
		"suspended client": {newClient("paused", suspend), v1beta1.ReasonSuspended, suspended},
		"expired client": {newClient("over", func(c *v1beta1.ApiClient) {
			c.Spec.ExpirationTime = &metav1.Time{Time: time.Now().Add(-time.Hour)}
		}), v1beta1.ReasonExpired, suspended},
		"client without its realm":           {install.ApiClient(team, "early", "later"), v1beta1.ReasonRealmNotFound, progressing},
		"client of a suspended realm":        {install.ApiClient(team, "idle", "idle"), v1beta1.ReasonRealmSuspended, suspended},
		"suspended client without its realm": {install.ApiClient(team, "both", "later", suspend), v1beta1.ReasonRealmNotFound, progressing},
		"client with an undefined scope":     {newClient("scope", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"write"} }), v1beta1.ReasonScopeNotInRealm, failed},
	} {
		t.Run(name, func(t *testing.T) {
			inst.Create(t, test.obj)
			inst.AwaitReady(t, test.obj, metav1.ConditionFalse, test.reason)
			wantHealth(t, inst, test.obj, test.want)
		})
	}
	t.Run("lagging token server", func(t *testing.T) {
		lagging := inst.StartTokenServer(t)
		inst.AwaitLiveServers(t, len(inst.Servers()))
		lagging.Freeze(t)
		late, lateRealm := newClient("late"), install.Realm("late")
		inst.Create(t, late, lateRealm)
		inst.AwaitReady(t, late, metav1.ConditionUnknown, v1beta1.ReasonProgressing)
		inst.AwaitReady(t, lateRealm, metav1.ConditionUnknown, v1beta1.ReasonProgressing)
		// The operator gives up on a frozen server after 30 seconds, so both are read before the
		// checks, which take seconds on a busy machine.
		storedClient, storedRealm := asStored(t, inst, late), asStored(t, inst, lateRealm)
		lagging.Thaw(t)
		wantStoredHealth(t, storedClient, late, progressing)
		wantStoredHealth(t, storedRealm, lateRealm, progressing)
		scenario.AwaitUsable(t, inst, late)
	})
	t.Run("corrupt records", func(t *testing.T) {
		c, r := newClient("corrupt"), install.Realm("corrupt")
		inst.Create(t, c, r)
		scenario.AwaitUsable(t, inst, c)
		inst.AwaitReady(t, r, metav1.ConditionTrue, v1beta1.ReasonReady)
		corrupt(t, inst, scenario.RecordName(t, inst, c))
		inst.AwaitReady(t, c, metav1.ConditionFalse, v1beta1.ReasonRecordUnreadable)
		wantHealth(t, inst, c, failed)
		corrupt(t, inst, record.RealmRecordName(r.UID))
		inst.AwaitReady(t, r, metav1.ConditionFalse, v1beta1.ReasonKeysUnreadable)
		wantHealth(t, inst, r, failed)
	})
	t.Run("change not yet observed by the operator", func(t *testing.T) {
		inst.StopOperator(t)
		install.Change(t, inst, good, func(c *v1beta1.ApiClient) { c.Spec.Description = "changed" })
		wantHealth(t, inst, good, progressing)
		install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.DisplayName = "changed" })
		wantHealth(t, inst, realm, progressing)
	})
}

func corrupt(t *testing.T, inst *install.Installation, name string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: inst.RecordsNamespace, Name: name}}
	install.Change(t, inst, secret, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte("corrupt") })
}

// wantHealth reads the object from the API server as GitOps tools do, and checks which status each
// tool derives from it.
func wantHealth(t *testing.T, inst *install.Installation, obj client.Object, want health) {
	t.Helper()
	wantStoredHealth(t, asStored(t, inst, obj), obj, want)
}

// wantStoredHealth checks the status in each GitOps tool of an object as the API server returned
// it. obj has the type of the object, and contains it afterwards.
func wantStoredHealth(t *testing.T, live *unstructured.Unstructured, obj client.Object, want health) {
	t.Helper()
	argo := argoHealthOf(t, live)
	got := health{Kstatus: kstatusOf(t, live), Flux: fluxStatusOf(t, live), Argo: argo.Status}
	if got != want {
		t.Errorf("the health of %s %s is %+v, want %+v; its status is %v", live.GetKind(), live.GetName(), got, want, live.Object["status"])
	}
	// The script doesn't report messages from outdated conditions.
	if seen, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration"); seen == live.GetGeneration() {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, obj); err != nil {
			t.Fatal(err)
		}
		if ready := scenario.ConditionMessage(t, obj, v1beta1.ConditionReady); argo.Message != ready {
			t.Errorf("Argo CD reports %q for %s %s, want the message of the Ready condition: %q", argo.Message, live.GetKind(), live.GetName(), ready)
		}
	}
}

// asStored returns an object as a client that doesn't know its type reads it from the API server.
func asStored(t *testing.T, inst *install.Installation, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	kind, err := inst.Env.Client.GroupVersionKindFor(obj)
	if err != nil {
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if err := inst.Env.Client.Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	return live
}

func kstatusOf(t *testing.T, obj *unstructured.Unstructured) status.Status {
	t.Helper()
	result, err := status.Compute(obj)
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

// Every reason for which an object isn't Ready has the health that its severity requires, also a reason that
// is added later. The conditions are those that the operator writes for the reason.
func TestHealthOfEachReason(t *testing.T) {
	want := map[v1beta1.Severity]health{
		v1beta1.SeverityError: failed, v1beta1.SeverityIntended: suspended, v1beta1.SeverityProgress: progressing,
		v1beta1.SeverityWaiting: progressing, v1beta1.SeverityConsequence: progressing, v1beta1.SeverityWarning: progressing,
	}
	for _, reason := range v1beta1.Reasons() {
		severity := reason.Severity()
		if severity == v1beta1.SeverityNone {
			continue
		}
		result := condition.NotReady(reason, "message")
		if severity == v1beta1.SeverityProgress {
			result = condition.Progressing("message")
		}
		for _, obj := range []client.Object{install.Realm("acme"), install.ApiClient("team", "billing", "acme")} {
			set := condition.NewSet(nil, 1, metav1.Now())
			set.Summarize(result)
			obj.SetGeneration(1)
			switch o := obj.(type) {
			case *v1beta1.Realm:
				o.Status = v1beta1.RealmStatus{ObservedGeneration: 1, Conditions: set.Conditions()}
			case *v1beta1.ApiClient:
				o.Status = v1beta1.ApiClientStatus{ObservedGeneration: 1, Conditions: set.Conditions()}
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				t.Fatal(err)
			}
			live := &unstructured.Unstructured{Object: content}
			kind := "ApiClient"
			if obj.GetNamespace() == "" {
				kind = "Realm"
				if reason == v1beta1.ReasonExpired || reason == v1beta1.ReasonRealmSuspended {
					continue // Only ApiClients have it.
				}
			}
			live.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kind))
			got := health{Kstatus: kstatusOf(t, live), Flux: fluxStatusOf(t, live), Argo: argoHealthOf(t, live).Status}
			if got != want[severity] {
				t.Errorf("%s with %s (%s): %+v, want %+v", kind, reason, severity, got, want[severity])
			}
			t.Logf("%-32s %-12s %-10s kstatus %-10s Flux %-10s Argo CD %s", reason, severity, kind, got.Kstatus, got.Flux, got.Argo)
		}
	}
}
