package observers_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/runtime/cel"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestExampleMatchesFluxTypes checks that every field in the example's manifests exists in Flux's
// types.
func TestExampleMatchesFluxTypes(t *testing.T) {
	kinds := map[string]func() any{
		"Namespace":          func() any { return &corev1.Namespace{} },
		"ResourceQuota":      func() any { return &corev1.ResourceQuota{} },
		"ServiceAccount":     func() any { return &corev1.ServiceAccount{} },
		"ClusterRole":        func() any { return &rbacv1.ClusterRole{} },
		"ClusterRoleBinding": func() any { return &rbacv1.ClusterRoleBinding{} },
		"RoleBinding":        func() any { return &rbacv1.RoleBinding{} },
		"GitRepository":      func() any { return &sourcev1.GitRepository{} },
		"HelmRelease":        func() any { return &helmv2.HelmRelease{} },
		"Kustomization":      func() any { return &kustomizev1.Kustomization{} },
	}
	files, err := filepath.Glob(filepath.Join(gitops, "repository", "clusters", "flux", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the example has no manifests: %v", err)
	}
	for _, file := range files {
		for document := range strings.SplitSeq(string(readFile(t, "repository", "clusters", "flux", filepath.Base(file))), "\n---\n") {
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
				t.Fatal(err)
			}
			newObject, ok := kinds[kind.Kind]
			if !ok {
				t.Errorf("%s contains the unexpected kind %s", file, kind.Kind)
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(document), newObject()); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// fluxStatusOf evaluates the health check expressions of the example as Flux does.
func fluxStatusOf(t *testing.T, obj *unstructured.Unstructured) status.Status {
	t.Helper()
	file := map[string]string{"Realm": "realms.yaml", "ApiClient": "customer-alder.yaml"}[obj.GetKind()]
	for _, check := range kustomizationIn(t, file).Spec.HealthCheckExprs {
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
	t.Fatalf("%s has no health check expressions for %s", file, obj.GetKind())
	return status.UnknownStatus
}

// kustomizationIn returns the Kustomization in a file of the example, which is the last object.
func kustomizationIn(t *testing.T, file string) (kustomization kustomizev1.Kustomization) {
	t.Helper()
	documents := strings.Split(string(readFile(t, "repository", "clusters", "flux", file)), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), &kustomization); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return kustomization
}
