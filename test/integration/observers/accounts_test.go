package observers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestClientsOfServiceAccounts checks that the examples for Kyverno and Argo CD create the ApiClient that
// docs/service-accounts.md shows. Neither program runs.
func TestClientsOfServiceAccounts(t *testing.T) {
	cluster := env.Start(t)
	namespace := cluster.Namespace(t)
	spec := map[string]any{
		"realmRef": map[string]any{"name": "acme"}, "scopes": []any{"orders.read"},
		"identities": []any{map[string]any{"name": "service-account", "serviceAccount": map[string]any{"name": "ledger"}}},
	}
	for name, create := range map[string]func(*testing.T, *env.Env, string, string) *unstructured.Unstructured{"Kyverno": byKyverno, "Argo CD": byArgoCD} {
		t.Run(name, func(t *testing.T) {
			got := create(t, cluster, namespace, "ledger")
			if diff := cmp.Diff(spec, got.Object["spec"]); diff != "" || got.GetName() != "ledger" || got.GetKind() != "ApiClient" {
				t.Errorf("%s %s (-want +got):\n%s", got.GetKind(), got.GetName(), diff)
			}
			file := filepath.Join(t.TempDir(), "client.yaml")
			if err := os.WriteFile(file, []byte(manifestOf(t, []*unstructured.Unstructured{got})), 0o600); err != nil {
				t.Fatal(err)
			}
			cluster.Kubectl(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--namespace", namespace, "--filename", file)
		})
	}
}

// byKyverno evaluates the expression of the policy for a service account.
func byKyverno(t *testing.T, _ *env.Env, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	policy := decode[struct {
		Spec struct{ Generate []struct{ Expression string } }
	}](t, install.Objects(t, readFile(t, "kyverno", "api-clients.yaml"))[0].Object)
	var generated ref.Val
	environment, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Function("generator.Apply", cel.Overload("apply",
		[]*cel.Type{cel.StringType, cel.ListType(cel.MapType(cel.StringType, cel.DynType))}, cel.BoolType,
		cel.BinaryBinding(func(into, objects ref.Val) ref.Val {
			generated = objects
			return types.Bool(into.Value() == namespace)
		}))))
	if err != nil {
		t.Fatal(err)
	}
	parsed, issues := environment.Compile(policy.Spec.Generate[0].Expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := environment.Program(parsed)
	if err != nil {
		t.Fatal(err)
	}
	account := map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}}
	if result, _, err := program.Eval(map[string]any{"object": account}); err != nil || result != types.True {
		t.Fatalf("the expression returns %v: %v", result, err)
	}
	list, err := generated.ConvertToNative(types.JSONListType)
	if err != nil {
		t.Fatal(err)
	}
	objects, ok := list.(*structpb.ListValue)
	if !ok || len(objects.GetValues()) != 1 {
		t.Fatalf("the expression generates %v", list)
	}
	return &unstructured.Unstructured{Object: objects.GetValues()[0].GetStructValue().AsMap()}
}

// byArgoCD builds the template with the patches of the ApplicationSet.
func byArgoCD(t *testing.T, cluster *env.Env, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	parsed, err := template.New("").Option("missingkey=error").Parse(string(readFile(t, "argocd", "api-clients.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	var rendered strings.Builder
	values := map[string]any{"path": map[string]any{"basename": name, "segments": []string{"workloads", namespace, name}}}
	if err := parsed.Execute(&rendered, values); err != nil {
		t.Fatal(err)
	}
	set := decode[struct {
		Spec struct {
			Template struct {
				Spec struct {
					Source struct {
						Kustomize struct{ Patches []any }
					}
					Destination destination
				}
			}
		}
	}](t, install.Objects(t, []byte(rendered.String()))[0].Object)
	if got := set.Spec.Template.Spec.Destination.Namespace; got != namespace {
		t.Errorf("the namespace is %s, want %s", got, namespace)
	}
	dir := t.TempDir()
	overlay, err := yaml.Marshal(map[string]any{"resources": []string{"api-client.yaml"}, "patches": set.Spec.Template.Spec.Source.Kustomize.Patches})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"kustomization.yaml": overlay, "api-client.yaml": readFile(t, "argocd", "api-client", "api-client.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return install.Objects(t, []byte(cluster.Kubectl(t, "kustomize", dir)))[0]
}
