package operator_test

import (
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/config"
	"github.com/realmkeeper/realmkeeper/internal/servingcert"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// When the operator's service account goes, all of the token service goes with it, and an
// operator that still runs for a moment brings nothing back.
func TestTokenServiceGoesWithTheServiceAccount(t *testing.T) {
	env := testenv.Start(t)
	install := testinstall.New(t, env, testinstall.Settings{})
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = install.Namespace, "realmkeeper-operator"
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ServiceAccountName: account.Name, Containers: []corev1.Container{{Name: "operator", Image: "realmkeeper:test"}},
	}}
	pod.Namespace, pod.Name = install.Namespace, "operator"
	install.Create(t, pod)
	install.Pod = pod.Name
	install.StartOperator(t, "")
	for _, obj := range tokenService(install) {
		testinstall.Eventually(t, "the object of the token service", func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj) })
		if owners := obj.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != account.Name {
			t.Errorf("%T belongs to %v", obj, owners)
		}
	}

	install.Delete(t, account)
	for _, obj := range tokenService(install) {
		testinstall.Eventually(t, "the token service to go", func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
				return errorf("reading %T gives %v", obj, err)
			}
			return nil
		})
	}
	// The certificate stays, and what would bring it back brings back everything.
	looked := tokenServiceLooks(t, install)
	serving := &corev1.Secret{}
	serving.Namespace, serving.Name = install.Namespace, servingcert.ServingSecret
	install.Delete(t, serving)
	testinstall.Eventually(t, "the operator to look at the token service", func() error {
		if now := tokenServiceLooks(t, install); now == looked {
			return errorf("it has done so %d times, as before", now)
		}
		return nil
	})
	for _, obj := range append(tokenService(install), serving) {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			t.Errorf("%T is there again: %v", obj, err)
		}
	}
}

// tokenService returns the objects of the token service, to be read.
func tokenService(install *testinstall.Installation) []client.Object {
	all := []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	}
	for _, obj := range all {
		obj.SetNamespace(install.Namespace)
		obj.SetName(config.TokenServiceName)
	}
	return all
}

// tokenServiceLooks returns how often the operator has reconciled the token service.
func tokenServiceLooks(t *testing.T, install *testinstall.Installation) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(install.OperatorMetrics(t)) {
		if rest, ok := strings.CutPrefix(line, `controller_runtime_reconcile_total{controller="tokenservice",`); ok {
			_, value, _ := strings.Cut(strings.TrimSpace(rest), " ")
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sum += n
		}
	}
	return sum
}
