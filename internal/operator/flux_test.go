package operator_test

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// fluxStatusOf evaluates the expressions of our example as Flux does.
func fluxStatusOf(t *testing.T, obj *unstructured.Unstructured) status.Status {
	t.Helper()
	file := map[string]string{"Realm": "realms.yaml", "ApiClient": "tenants.yaml"}[obj.GetKind()]
	var kustomization kustomizev1.Kustomization
	if err := yaml.UnmarshalStrict(readFile(t, "repository", "clusters", "flux", file), &kustomization); err != nil {
		t.Fatal(err)
	}
	for _, check := range kustomization.Spec.HealthCheckExprs {
		if check.APIVersion != obj.GetAPIVersion() || check.Kind != obj.GetKind() {
			continue
		}
		evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
		if err != nil {
			t.Fatal(err)
		}
		result, err := evaluator.Evaluate(t.Context(), obj)
		if err != nil {
			t.Fatal(err)
		}
		return result.Status
	}
	t.Fatalf("%s has no expressions for %s", file, obj.GetKind())
	return status.UnknownStatus
}
