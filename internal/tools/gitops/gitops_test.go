package gitops_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

func managedBy(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
}

// Flux takes over what managers with such names have set, and then removes what Git doesn't set.
func TestFluxKeepsChanges(t *testing.T) {
	for _, owner := range []string{gitops.FieldOwnerPlugin, gitops.FieldOwnerPortal} {
		for _, prefix := range []string{"kubectl", "before-first-apply", "kustomize-controller"} {
			if strings.HasPrefix(owner, prefix) {
				t.Errorf("Flux would revert the changes of %s, because its name begins with %s", owner, prefix)
			}
		}
	}
}

func TestManagerOf(t *testing.T) {
	suspend := fieldpath.MakePathOrDie("spec", "suspend")
	const sets, setsNot = `{"f:spec":{"f:suspend":{}}}`, `{"f:spec":{"f:scopes":{}}}`
	tests := map[string]struct {
		object metav1.ObjectMeta
		want   string
		sets   bool
	}{
		"no tool":              {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{managedBy("kubectl-client-side-apply", sets)}}, "", false},
		"by its field manager": {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{managedBy("kustomize-controller", sets)}}, "Flux", true},
		"by its label": {
			metav1.ObjectMeta{
				Labels:        map[string]string{"kustomize.toolkit.fluxcd.io/namespace": "flux-system", "kustomize.toolkit.fluxcd.io/name": "apps"},
				ManagedFields: []metav1.ManagedFieldsEntry{managedBy("kustomize-controller", setsNot), managedBy("kubectl", sets)},
			},
			"Flux (Kustomization flux-system/apps)", false,
		},
		// Argo CD can use a field manager with a name of the user's choice.
		"custom field manager": {
			metav1.ObjectMeta{
				Annotations:   map[string]string{"argocd.argoproj.io/tracking-id": "apps:auth.realmkeeper.dev/ApiClient:acme/billing"},
				ManagedFields: []metav1.ManagedFieldsEntry{managedBy("custom", sets)},
			},
			"Argo CD (application apps)", true,
		},
		"field of Realmkeeper's own tools": {
			metav1.ObjectMeta{
				Labels:        map[string]string{"argocd.argoproj.io/instance": "apps"},
				ManagedFields: []metav1.ManagedFieldsEntry{managedBy(gitops.FieldOwnerPortal, sets), managedBy(gitops.FieldOwnerPlugin, sets), managedBy(gitops.FieldOwnerPluginCreate, sets), managedBy("custom", setsNot)},
			},
			"Argo CD (application apps)", false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, ok := gitops.ManagerOf(&test.object)
			if ok != (test.want != "") || ok && m.String() != test.want {
				t.Fatalf("ManagerOf() = %s, %t, want %q", m, ok, test.want)
			}
			if got := ok && m.Sets(&test.object, suspend); got != test.sets {
				t.Errorf("Sets() = %t, want %t", got, test.sets)
			}
		})
	}
}
