package portal

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// manager is the tool that keeps an object as it stands elsewhere, such as in Git.
type manager struct {
	// Tool is its name for people, and Source says which of its objects it is.
	Tool, Source string
	// owners are the field managers under which it writes.
	owners []string
}

// tools are those that undo what others change. Each marks its objects, and writes them under
// names of its own.
var tools = []struct {
	name   string
	owners []string
	source func(*v1alpha1.ApiClient) string // empty: it isn't marked
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

// managerOf returns the tool that manages a client, by the marks that it leaves and by the
// field managers; false where nobody but people does.
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

// reverts returns why a change of a field would not last; empty where it would. An empty
// path is the whole object.
func reverts(c *v1alpha1.ApiClient, path fieldpath.Path) string {
	m, ok := managerOf(c)
	switch {
	case !ok:
		return ""
	case len(path) == 0:
		return fmt.Sprintf("%s would make it again. Delete it where %s has it from.", m, m.Tool)
	case ownedBy(c, path, m.isOwner(c)):
		return fmt.Sprintf("%s sets %s, and would set it back. Change it where %s has it from.", m, strings.TrimPrefix(path.String(), "."), m.Tool)
	}
	return ""
}

// isOwner returns which field managers are the tool. One that wrote under none of its names
// was told another: then it may be anyone but us and the operator.
func (m manager) isOwner(c *v1alpha1.ApiClient) func(string) bool {
	known := func(name string) bool { return slices.Contains(m.owners, name) }
	if slices.ContainsFunc(c.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return known(e.Manager) }) {
		return known
	}
	return isForeign
}

// isForeign reports whether a field manager is neither the portal nor the operator.
func isForeign(name string) bool { return name != FieldOwner && name != v1alpha1.FieldOwner }

// ownedBy reports whether one of these managers has set a field, or anything below it.
func ownedBy(c *v1alpha1.ApiClient, path fieldpath.Path, is func(manager string) bool) bool {
	return slices.ContainsFunc(c.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		if e.Subresource != "" || e.FieldsV1 == nil || !is(e.Manager) {
			return false
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return true // Nobody knows; to be careful is right.
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

// The fields that the portal changes.
var (
	suspendPath     = fieldpath.MakePathOrDie("spec", "suspend")
	expiresAtPath   = fieldpath.MakePathOrDie("spec", "expiresAt")
	secretPath      = fieldpath.MakePathOrDie("spec", "secret")
	rotateAfterPath = fieldpath.MakePathOrDie("spec", "secret", "generated", "rotation", "rotateAfter")
)

// hashedPath is the entry of a secret.
func hashedPath(id string) fieldpath.Path {
	return fieldpath.MakePathOrDie("spec", "secret", "hashed", fieldpath.KeyByFields("id", id))
}
