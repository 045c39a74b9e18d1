package observers_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// project contains the rules of Argo CD's AppProject that the example uses.
type project struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		SourceRepos                                            []string
		Destinations                                           []destination
		ClusterResourceWhitelist, ClusterResourceBlacklist     []metav1.GroupKind
		NamespaceResourceWhitelist, NamespaceResourceBlacklist []metav1.GroupKind
	}
}

type destination struct{ Server, Namespace string }

// application is the part of Argo CD's Application that a project limits.
type application struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		Project     string
		Source      struct{ RepoURL, Path string }
		Destination destination
	}
}

// TestArgoProjectsLimitApplications checks that every Application of the example, including those of the
// ApplicationSet, has a project of its own that allows its source and destination.
func TestArgoProjectsLimitApplications(t *testing.T) {
	projects := map[string]project{}
	var applications []application
	files, err := filepath.Glob(filepath.Join(gitops, "repository", "clusters", "argocd", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, obj := range install.Objects(t, readFile(t, "repository", "clusters", "argocd", filepath.Base(file))) {
			switch obj.GetKind() {
			case "AppProject":
				projects[obj.GetName()] = decode[project](t, obj.Object)
			case "Application":
				applications = append(applications, decode[application](t, obj.Object))
			case "ApplicationSet":
				applications = append(applications, generated(t, obj)...)
			}
		}
	}
	if len(applications) != 6 {
		t.Errorf("got %d Applications, want 6", len(applications))
	}
	for _, a := range applications {
		p, ok := projects[a.Spec.Project]
		if !ok || a.Spec.Project == "default" {
			t.Errorf("Application %s has the project %q", a.Metadata.Name, a.Spec.Project)
		}
		if len(p.Spec.SourceRepos) != 1 || p.Spec.SourceRepos[0] != a.Spec.Source.RepoURL {
			t.Errorf("the sources %v of project %s don't allow %s", p.Spec.SourceRepos, a.Spec.Project, a.Spec.Source.RepoURL)
		}
		if !p.allows(t, a.Spec.Destination) {
			t.Errorf("project %s doesn't allow the destination %v", a.Spec.Project, a.Spec.Destination)
		}
	}
}

// generated returns the Applications that Argo CD generates for the folders of the example.
func generated(t *testing.T, set *unstructured.Unstructured) (applications []application) {
	t.Helper()
	spec, _, err := unstructured.NestedMap(set.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	content, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := template.New("").Option("missingkey=error").Parse(string(content))
	if err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(filepath.Join(gitops, "repository", "customers"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		var rendered strings.Builder
		values := map[string]any{"path": map[string]any{"path": "customers/" + folder.Name(), "basename": folder.Name()}}
		if err := parsed.Execute(&rendered, values); err != nil {
			t.Fatal(err)
		}
		a := decode[application](t, install.Objects(t, []byte(rendered.String()))[0].Object)
		if want := "customer-" + folder.Name(); a.Metadata.Name != want || a.Spec.Project != want || a.Spec.Destination.Namespace != want || a.Spec.Source.Path != "customers/"+folder.Name() {
			t.Errorf("folder %s has the Application %+v", folder.Name(), a)
		}
		applications = append(applications, a)
	}
	return applications
}

// projectOf returns the project of a customer.
func projectOf(t *testing.T, customer string) project {
	t.Helper()
	objects := install.Objects(t, readFile(t, "repository", "clusters", "argocd", "customer-"+customer+".yaml"))
	return decode[project](t, objects[len(objects)-1].Object)
}

// permits reports whether Argo CD applies an object in an Application of a project. The rules are those of
// AppProject.IsResourcePermitted in Argo CD 3.5: a missing list for namespaced kinds allows all, and a
// missing list for cluster-scoped kinds allows none.
func (p project) permits(t *testing.T, obj *unstructured.Unstructured) bool {
	t.Helper()
	kind := metav1.GroupKind{Group: obj.GroupVersionKind().Group, Kind: obj.GetKind()}
	if obj.GetNamespace() == "" {
		return listed(t, p.Spec.ClusterResourceWhitelist, kind) && !listed(t, p.Spec.ClusterResourceBlacklist, kind)
	}
	allowed := p.Spec.NamespaceResourceWhitelist == nil || listed(t, p.Spec.NamespaceResourceWhitelist, kind)
	return allowed && !listed(t, p.Spec.NamespaceResourceBlacklist, kind) && p.allows(t, destination{"https://kubernetes.default.svc", obj.GetNamespace()})
}

func (p project) allows(t *testing.T, d destination) bool {
	t.Helper()
	for _, allowed := range p.Spec.Destinations {
		if allowed.Server == d.Server && matches(t, allowed.Namespace, d.Namespace) {
			return true
		}
	}
	return false
}

func listed(t *testing.T, list []metav1.GroupKind, kind metav1.GroupKind) bool {
	t.Helper()
	for _, pattern := range list {
		if matches(t, pattern.Group, kind.Group) && matches(t, pattern.Kind, kind.Kind) {
			return true
		}
	}
	return false
}

// matches compares a value without slashes with a pattern of Argo CD.
func matches(t *testing.T, pattern, value string) bool {
	t.Helper()
	matched, err := path.Match(pattern, value)
	if err != nil {
		t.Fatal(err)
	}
	return matched
}

func decode[T any](t *testing.T, object map[string]any) (decoded T) {
	t.Helper()
	content, err := yaml.Marshal(object)
	if err == nil {
		err = yaml.Unmarshal(content, &decoded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}
