package availability_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// When the operator's service account is deleted, the token service is deleted with it. An operator
// that is still running must not create it again.
func TestTokenServiceIsDeletedWithServiceAccount(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = inst.Namespace, "realmkeeper-operator"
	inst.Pod = operatorPod(t, inst)
	inst.StartOperator(t, "")
	for _, obj := range tokenService(inst) {
		install.Eventually(t, fmt.Sprintf("the %T of the token service", obj), func() error { return cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj) })
		if owners := obj.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != account.Name {
			t.Errorf("the owners of %T are %v", obj, owners)
		}
	}

	inst.Delete(t, account)
	for _, obj := range tokenService(inst) {
		install.Eventually(t, fmt.Sprintf("the %T of the token service to be deleted", obj), func() error {
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading %T returned %w, want not found", obj, err)
			}
			return nil
		})
	}
	// The certificate isn't deleted with the account. If the operator created the certificate again,
	// it would also create everything else.
	before := tokenServiceReconciles(t, inst)
	serving := &corev1.Secret{}
	serving.Namespace, serving.Name = inst.Namespace, pki.ServingSecretName
	inst.Delete(t, serving)
	install.Eventually(t, "the operator to reconcile the token service", func() error {
		if now := tokenServiceReconciles(t, inst); now == before {
			return fmt.Errorf("it has reconciled %d times, as before", now)
		}
		return nil
	})
	for _, obj := range append(tokenService(inst), serving) {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			t.Errorf("%T exists again: %v", obj, err)
		}
	}
}

// operatorPod creates a Pod with the operator's service account and returns its name. It doesn't run.
func operatorPod(t *testing.T, inst *install.Installation) string {
	t.Helper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ServiceAccountName: "realmkeeper-operator", Containers: []corev1.Container{{Name: "operator", Image: "realmkeeper:test"}},
	}}
	pod.Namespace, pod.Name = inst.Namespace, "operator"
	inst.Create(t, pod)
	return pod.Name
}

// tokenService returns the token service's objects with only their names set.
func tokenService(inst *install.Installation) []client.Object {
	all := []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	}
	for _, obj := range all {
		obj.SetNamespace(inst.Namespace)
		obj.SetName(config.TokenServiceName)
	}
	return all
}

// tokenServiceReconciles returns how often the operator has reconciled the token service.
func tokenServiceReconciles(t *testing.T, inst *install.Installation) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(inst.OperatorMetrics(t)) {
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
