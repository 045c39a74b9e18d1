// Package gitops recognizes the tools that manage objects from a source such as Git or a chart, and
// the fields that they set. Such a tool reverts changes that users make in the cluster.
package gitops

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Names of the field managers of Realmkeeper's own tools, in addition to v1beta1.FieldOwner.
const (
	FieldOwnerPortal = "realmkeeper-portal"
	// FieldOwnerPlugin owns what the plugin changes, such as a suspension. Flux takes over the fields of all
	// managers whose names begin with kubectl, and then removes those that Git doesn't set.
	FieldOwnerPlugin = "realmkeeper-plugin"
	// FieldOwnerPluginCreate owns the fields of objects that the plugin creates. If their manifests are in Git,
	// Flux takes them over, so that a field that is removed from Git is also removed from the object.
	FieldOwnerPluginCreate = "kubectl-realmkeeper"
)

// Manager is a tool that manages an object from a source.
type Manager struct {
	// Tool is the display name. Source is the tool's object that the managed object comes from, or
	// empty if it is unknown.
	Tool, Source string
	// owners are the names of the tool's field managers.
	owners []string
}

// tools are the supported management tools. Each marks its objects with labels or annotations and
// uses its own field managers.
var tools = []struct {
	name   string
	owners []string
	source func(metav1.Object) string // empty if the object isn't marked
}{
	{"Argo CD", []string{"argocd-controller", "argocd-application-controller"}, func(o metav1.Object) string {
		application, _, _ := strings.Cut(o.GetAnnotations()["argocd.argoproj.io/tracking-id"], ":")
		if application == "" {
			application = o.GetLabels()["argocd.argoproj.io/instance"]
		}
		return named("application", application)
	}},
	{"Flux", []string{"kustomize-controller"}, func(o metav1.Object) string {
		return named("Kustomization", inNamespace(o.GetLabels()["kustomize.toolkit.fluxcd.io/namespace"], o.GetLabels()["kustomize.toolkit.fluxcd.io/name"]))
	}},
	{"Flux", []string{"helm-controller"}, func(o metav1.Object) string {
		return named("HelmRelease", inNamespace(o.GetLabels()["helm.toolkit.fluxcd.io/namespace"], o.GetLabels()["helm.toolkit.fluxcd.io/name"]))
	}},
	{"Helm", []string{"helm", "Helm"}, func(o metav1.Object) string {
		if o.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
			return ""
		}
		return named("release", inNamespace(o.GetAnnotations()["meta.helm.sh/release-namespace"], o.GetAnnotations()["meta.helm.sh/release-name"]))
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

// ManagerOf returns the tool that manages an object. It checks labels and annotations first, then
// field managers.
func ManagerOf(o metav1.Object) (Manager, bool) {
	for _, t := range tools {
		if source := t.source(o); source != "" {
			return Manager{Tool: t.name, Source: source, owners: t.owners}, true
		}
	}
	for _, t := range tools {
		if slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return slices.Contains(t.owners, e.Manager) }) {
			return Manager{Tool: t.name, owners: t.owners}, true
		}
	}
	return Manager{}, false
}

// String returns the tool, and its source in parentheses if it is known.
func (m Manager) String() string {
	if m.Source == "" {
		return m.Tool
	}
	return m.Tool + " (" + m.Source + ")"
}

// Sets reports whether the tool sets the field at path, so that it would revert a change.
func (m Manager) Sets(o metav1.Object, path fieldpath.Path) bool {
	return OwnedBy(o, path, m.isOwner(o))
}

// isOwner returns a function that reports whether a field manager belongs to the tool. If none of
// the tool's usual field managers is present, the tool may use a custom name. In this case, any
// field manager except Realmkeeper's own may belong to the tool.
func (m Manager) isOwner(o metav1.Object) func(string) bool {
	known := func(name string) bool { return slices.Contains(m.owners, name) }
	if slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return known(e.Manager) }) {
		return known
	}
	return func(name string) bool {
		return !slices.Contains([]string{v1beta1.FieldOwner, FieldOwnerPortal, FieldOwnerPlugin, FieldOwnerPluginCreate}, name)
	}
}

// OwnedBy reports whether a matching field manager owns the field or any field below it.
func OwnedBy(o metav1.Object, path fieldpath.Path, is func(manager string) bool) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
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
