package operator_test

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

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// health is what GitOps tools make of an object.
type health struct {
	// Kstatus is the reading of kstatus, and so of Flux with wait: true.
	Kstatus status.Status
	// Flux is its reading with the expressions in docs/gitops/repository.
	Flux status.Status
	// Argo is that of Argo CD with docs/gitops/argocd.
	Argo string
}

var (
	healthy   = health{status.CurrentStatus, status.CurrentStatus, "Healthy"}
	waits     = health{status.InProgressStatus, status.InProgressStatus, "Progressing"}
	failed    = health{status.FailedStatus, status.FailedStatus, "Degraded"}
	suspended = health{status.InProgressStatus, status.CurrentStatus, "Suspended"}
)

// Every state of a Realm and an ApiClient, as the real operator tells it, is read by GitOps
// tools for what it is: what works, what will work by itself, what someone has to mend, and
// what is at rest because its manifest says so.
func TestGitOpsToolsReadOurHealth(t *testing.T) {
	env := testenv.Start(t)
	install := testinstall.New(t, env, testinstall.Settings{MaximumTokenLifetime: "1h"})
	team, outside := env.Namespace(t), env.Namespace(t)
	realm := testinstall.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesFromNames, Names: []string{team}}
		r.Spec.Scopes = []string{"read"}
		r.Spec.Audiences = []string{"orders"}
	})
	newClient := func(name string, change ...func(*v1alpha1.ApiClient)) *v1alpha1.ApiClient {
		return testinstall.ApiClient(team, name, "acme", change...)
	}
	good := newClient("good")

	install.Create(t, realm, good)
	hasHealth(t, install, realm, waits) // nobody has seen them yet
	hasHealth(t, install, good, waits)

	install.StartOperator(t, "")
	install.AwaitReady(t, realm, metav1.ConditionFalse, v1alpha1.ReasonNoTokenServer)
	hasHealth(t, install, realm, waits)
	install.AwaitReady(t, good, metav1.ConditionFalse, v1alpha1.ReasonNoTokenServer)
	hasHealth(t, install, good, waits)

	install.StartTokenServer(t)
	converges(t, install, good)
	hasHealth(t, install, realm, healthy)
	hasHealth(t, install, good, healthy)

	suspend := func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true }
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "taken"}}
	install.Create(t, foreign, testinstall.Realm("idle", func(r *v1alpha1.Realm) { r.Spec.Suspend = true }))
	for name, test := range map[string]struct {
		obj    client.Object
		reason v1alpha1.ConditionReason
		want   health
	}{
		"realm at rest": {testinstall.Realm("paused", func(r *v1alpha1.Realm) { r.Spec.Suspend = true }), v1alpha1.ReasonSuspended, suspended},
		"realm out of bounds": {testinstall.Realm("long", func(r *v1alpha1.Realm) {
			r.Spec.TokenLifetime = &metav1.Duration{Duration: 2 * time.Hour}
		}), v1alpha1.ReasonLifetimeExceedsInstanceMaximum, failed},

		"client at rest": {newClient("paused", suspend), v1alpha1.ReasonSuspended, suspended},
		"client at its end": {newClient("over", func(c *v1alpha1.ApiClient) {
			c.Spec.ExpiresAt = &metav1.Time{Time: time.Now().Add(-time.Hour)}
		}), v1alpha1.ReasonExpired, suspended},
		"client before its realm":     {testinstall.ApiClient(team, "early", "later"), v1alpha1.ReasonRealmNotFound, waits},
		"client of a realm at rest":   {testinstall.ApiClient(team, "idle", "idle"), v1alpha1.ReasonRealmNotReady, waits},
		"client at rest before realm": {testinstall.ApiClient(team, "both", "later", suspend), v1alpha1.ReasonRealmNotFound, waits},
		"client from outside":         {testinstall.ApiClient(outside, "out", "acme"), v1alpha1.ReasonNamespaceNotAllowed, failed},
		"client with another scope":   {newClient("scope", func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{"write"} }), v1alpha1.ReasonScopeNotInRealm, failed},
		"client with another audience": {newClient("audience", func(c *v1alpha1.ApiClient) {
			c.Spec.Audiences = []string{"billing"}
		}), v1alpha1.ReasonAudienceNotInRealm, failed},
		"client out of bounds": {newClient("long", func(c *v1alpha1.ApiClient) {
			c.Spec.TokenLifetime = &metav1.Duration{Duration: 2 * time.Hour}
		}), v1alpha1.ReasonLifetimeExceedsRealm, failed},
		"client before a foreign Secret": {newClient("taken"), v1alpha1.ReasonSecretConflict, failed},
	} {
		t.Run(name, func(t *testing.T) {
			install.Create(t, test.obj)
			install.AwaitReady(t, test.obj, metav1.ConditionFalse, test.reason)
			hasHealth(t, install, test.obj, test.want)
		})
	}
	t.Run("two clients with one id", func(t *testing.T) {
		claim := func(c *v1alpha1.ApiClient) { c.Spec.ClientID = "one" }
		first, second := newClient("first", claim), newClient("second", claim)
		install.Create(t, first)
		converges(t, install, first)
		install.Create(t, second)
		install.AwaitReady(t, second, metav1.ConditionFalse, v1alpha1.ReasonClientIDConflict)
		hasHealth(t, install, second, failed)
		hasHealth(t, install, first, healthy)
	})
	t.Run("a token server that lags", func(t *testing.T) {
		lagging := install.StartTokenServer(t)
		lagging.Freeze(t)
		late, lateRealm := newClient("late"), testinstall.Realm("late")
		install.Create(t, late, lateRealm)
		install.AwaitReady(t, late, metav1.ConditionUnknown, v1alpha1.ReasonProgressing)
		hasHealth(t, install, late, waits)
		install.AwaitReady(t, lateRealm, metav1.ConditionUnknown, v1alpha1.ReasonProgressing)
		hasHealth(t, install, lateRealm, waits)
		lagging.Thaw(t)
		converges(t, install, late)
	})
	t.Run("damaged records", func(t *testing.T) {
		c, r := newClient("damaged"), testinstall.Realm("damaged")
		install.Create(t, c, r)
		converges(t, install, c)
		install.AwaitReady(t, r, metav1.ConditionTrue, v1alpha1.ReasonReady)
		damage(t, install, record.SecretName(record.KindClient, c.UID))
		install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonRecordUnreadable)
		hasHealth(t, install, c, failed)
		damage(t, install, record.SecretName(record.KindRealm, r.UID))
		install.AwaitReady(t, r, metav1.ConditionFalse, v1alpha1.ReasonKeysUnreadable)
		hasHealth(t, install, r, failed)
	})
	t.Run("a change that nobody has seen yet", func(t *testing.T) {
		install.StopOperator(t)
		testinstall.Change(t, install, good, func(c *v1alpha1.ApiClient) { c.Spec.Description = "changed" })
		hasHealth(t, install, good, waits)
		testinstall.Change(t, install, realm, func(r *v1alpha1.Realm) { r.Spec.DisplayName = "changed" })
		hasHealth(t, install, realm, waits)
	})
}

func damage(t *testing.T, install *testinstall.Installation, name string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: name}}
	testinstall.Change(t, install, secret, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte("damaged") })
}

// hasHealth reads the object from the API server as tools do, and lets them read it.
func hasHealth(t *testing.T, install *testinstall.Installation, obj client.Object, want health) {
	t.Helper()
	live := asStored(t, install, obj)
	argo := argoHealthOf(t, live)
	got := health{Kstatus: kstatusOf(t, live), Flux: fluxStatusOf(t, live), Argo: argo.Status}
	if got != want {
		t.Errorf("%s %s is read as %+v, want %+v; its status is %v", live.GetKind(), live.GetName(), got, want, live.Object["status"])
	}
	// Of conditions that are out of date nothing is repeated.
	if seen, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration"); seen == live.GetGeneration() {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, obj); err != nil {
			t.Fatal(err)
		}
		if ready := messageOf(t, obj, v1alpha1.ConditionReady); argo.Message != ready {
			t.Errorf("Argo CD says %q of %s %s, want what Ready says: %q", argo.Message, live.GetKind(), live.GetName(), ready)
		}
	}
}

// asStored returns an object as the API server gives it to a client that doesn't know its
// type.
func asStored(t *testing.T, install *testinstall.Installation, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	kind, err := install.Env.Client.GroupVersionKindFor(obj)
	if err != nil {
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if err := install.Env.Client.Get(t.Context(), key, live); err != nil {
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
