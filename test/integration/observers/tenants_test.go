package observers_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestExampleLimitsTenants checks that neither tool applies more than ApiClients from the directory of a
// tenant, and that neither prunes a Realm by itself.
func TestExampleLimitsTenants(t *testing.T) {
	for name, test := range map[string]struct {
		file []string
		kind string
		path []string
		want any
	}{
		"project": {
			[]string{"clusters", "argocd", "tenants.yaml"}, "ApplicationSet", []string{"spec", "template", "spec", "project"}, "tenant-{{.path.basename}}",
		},
		"name of the Application": {
			[]string{"clusters", "argocd", "tenants.yaml"}, "ApplicationSet", []string{"spec", "template", "metadata", "name"}, "tenant-{{.path.basename}}",
		},
		"name of the project": {
			[]string{"clusters", "argocd", "tenants.yaml"}, "AppProject", []string{"metadata", "name"}, "tenant-acme-apps",
		},
		"cluster-scoped kinds": {
			[]string{"clusters", "argocd", "tenants.yaml"}, "AppProject", []string{"spec", "clusterResourceWhitelist"}, []any{},
		},
		"namespaced kinds": {
			[]string{"clusters", "argocd", "tenants.yaml"},
			"AppProject",
			[]string{"spec", "namespaceResourceWhitelist"},
			[]any{map[string]any{"group": "auth.realmkeeper.dev", "kind": "ApiClient"}},
		},
		"service account": {
			[]string{"clusters", "flux", "tenants.yaml"}, "Kustomization", []string{"spec", "serviceAccountName"}, "acme-apps",
		},
		"role": {
			[]string{"clusters", "flux", "tenants.yaml"}, "RoleBinding", []string{"roleRef", "name"}, "manage-api-credentials",
		},
		"pruning by Argo CD": {
			[]string{"realms", "acme.yaml"}, "Realm", []string{"metadata", "annotations", "argocd.argoproj.io/sync-options"}, "Prune=confirm,Delete=confirm",
		},
		"pruning by Flux": {
			[]string{"realms", "acme.yaml"}, "Realm", []string{"metadata", "annotations", "kustomize.toolkit.fluxcd.io/prune"}, "disabled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			content := readFile(t, append([]string{"repository"}, test.file...)...)
			var got any
			for document := range strings.SplitSeq(string(content), "\n---\n") {
				var object map[string]any
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Fatal(err)
				}
				if object["kind"] == test.kind {
					got = object
				}
			}
			for _, member := range test.path {
				object, _ := got.(map[string]any)
				got = object[member]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", strings.Join(test.path, "."), diff)
			}
		})
	}
}
