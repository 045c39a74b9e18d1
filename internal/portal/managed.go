package portal

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// manager is a tool that manages an object from a source such as Git.
type manager struct {
	// Tool is the display name. Source is the tool's object that the client comes from.
	Tool, Source string
	// owners are the names of the tool's field managers.
	owners []string
}

// tools are the supported management tools. Each marks its objects with labels or annotations and
// uses its own field managers.
var tools = []struct {
	name   string
	owners []string
	source func(*v1alpha1.ApiClient) string // empty if the object isn't marked
}{
	{"Argo CD", []string{"argocd-controller", "argocd-application-controller"}, func(c *v1alpha1.ApiClient) string {
		application, _, _ := strings.Cut(c.Annotations["argocd.argoproj.io/tracking-id"], ":")
		if application == "" {
			application = c.Labels["argocd.argoproj.io/instance"]
		}
		return named("application", application)
	}},
	{"Flux", []string{"kustomize-controller"}, func(c *v1alpha1.ApiClient) string {
		return named("Kustomization", inNamespace(c.Labels["kustomize.toolkit.fluxcd.io/namespace"], c.Labels["kustomize.toolkit.fluxcd.io/name"]))
	}},
	{"Flux", []string{"helm-controller"}, func(c *v1alpha1.ApiClient) string {
		return named("HelmRelease", inNamespace(c.Labels["helm.toolkit.fluxcd.io/namespace"], c.Labels["helm.toolkit.fluxcd.io/name"]))
	}},
	{"Helm", []string{"helm", "Helm"}, func(c *v1alpha1.ApiClient) string {
		if c.Labels["app.kubernetes.io/managed-by"] != "Helm" {
			return ""
		}
		return named("release", inNamespace(c.Annotations["meta.helm.sh/release-namespace"], c.Annotations["meta.helm.sh/release-name"]))
	}},
}

func named(kind, name string) string {
	if name == "" {
		return ""
	}
	return kind + " " + name
}

func inNamespace(namespace, name string) string {
	if namespace == "" || name == "" {
		return name
	}
	return namespace + "/" + name
}

// managerOf returns the tool that manages a client. It checks labels and annotations first, then
// field managers.
func managerOf(c *v1alpha1.ApiClient) (manager, bool) {
	for _, t := range tools {
		if source := t.source(c); source != "" {
			return manager{Tool: t.name, Source: source, owners: t.owners}, true
		}
	}
	for _, t := range tools {
		if slices.ContainsFunc(c.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return slices.Contains(t.owners, e.Manager) }) {
			return manager{Tool: t.name, owners: t.owners}, true
		}
	}
	return manager{}, false
}

func (m manager) String() string {
	if m.Source == "" {
		return m.Tool
	}
	return m.Tool + " (" + m.Source + ")"
}

// revertReason explains how the managing tool would revert a change to the field at path, or the
// deletion of the client if path is empty. It returns an empty string if the change would persist.
func revertReason(c *v1alpha1.ApiClient, path fieldpath.Path) string {
	m, ok := managerOf(c)
	switch {
	case !ok:
		return ""
	case len(path) == 0:
		return fmt.Sprintf("%s would recreate the client. Delete it in %s instead.", m, m.Tool)
	case ownedBy(c, path, m.isOwner(c)):
		return fmt.Sprintf("%s sets %s and would revert the change. Make the change in %s instead.", m, strings.TrimPrefix(path.String(), "."), m.Tool)
	}
	return ""
}

// isOwner returns a function that reports whether a field manager belongs to the tool. If none of
// the tool's usual field managers is present, the tool may use a custom name. In this case, any
// field manager except the portal and the operator may belong to the tool.
func (m manager) isOwner(c *v1alpha1.ApiClient) func(string) bool {
	known := func(name string) bool { return slices.Contains(m.owners, name) }
	if slices.ContainsFunc(c.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return known(e.Manager) }) {
		return known
	}
	return isOtherManager
}

// isOtherManager reports whether a field manager is neither the portal nor the operator.
func isOtherManager(name string) bool { return name != FieldOwner && name != v1alpha1.FieldOwner }

// ownedBy reports whether a matching field manager owns the field or any field below it.
func ownedBy(c *v1alpha1.ApiClient, path fieldpath.Path, is func(manager string) bool) bool {
	return slices.ContainsFunc(c.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		if e.Subresource != "" || e.FieldsV1 == nil || !is(e.Manager) {
			return false
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return true // Ownership is unknown, so treat the field as owned.
		}
		if set.Has(path) {
			return true
		}
		for _, element := range path {
			set = set.WithPrefix(element)
		}
		return !set.Empty()
	})
}

// Fields that the portal changes.
var (
	suspendPath     = fieldpath.MakePathOrDie("spec", "suspend")
	expiresAtPath   = fieldpath.MakePathOrDie("spec", "expiresAt")
	secretPath      = fieldpath.MakePathOrDie("spec", "secret")
	rotateAfterPath = fieldpath.MakePathOrDie("spec", "secret", "generated", "rotation", "rotateAfter")
)

// hashedPath returns the field path of the hashed secret with the given ID.
func hashedPath(id string) fieldpath.Path {
	return fieldpath.MakePathOrDie("spec", "secret", "hashed", fieldpath.KeyByFields("id", id))
}
