package chart_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

var update = flag.Bool("update", false, "Update the golden files")

const (
	goldenFile  = "testdata/permissions.txt"
	operator    = "realmkeeper-operator"
	tokenServer = "realmkeeper-token-server"
)

// modes contains the values that change the operator's permissions.
var modes = []struct{ title, set string }{
	{"operator with watchNamespaces", "operator.watchNamespaces={watched}"},
	{"operator without credentialsSecrets", "credentialsSecrets.enabled=false"},
	{"operator with watchNamespaces and without credentialsSecrets", "operator.watchNamespaces={watched},credentialsSecrets.enabled=false"},
}

// TestPermissions compares all permissions that the API server reports with the golden file, both
// for the chart in each mode and for the manifests in config.
func TestPermissions(t *testing.T) {
	cluster := env.Start(t)
	golden := readGolden(t)
	var kustomize, reduced string
	t.Run("kustomize", func(t *testing.T) {
		deployed(t, cluster, "../../config/overlays/testing")
		kustomize = installed(t, cluster, golden, "realmkeeper-system")
	})
	r := installChart(t, helm4, values["defaults"]...)
	helm := installed(t, cluster, golden, r.namespace)
	cluster.Kubectl(t, "create", "namespace", "watched")
	for _, mode := range modes {
		t.Run(mode.title, func(t *testing.T) {
			r.helm(t, helm4, "upgrade", slices.Concat([]string{releaseName, *chart}, values["defaults"], []string{"--set", mode.set})...)
			reduced += golden.await(t, func(b *strings.Builder) { operatorPermissions(t, cluster, b, mode.title, r.namespace) })
		})
	}
	if kustomize != helm {
		t.Errorf("Permissions (-kustomize +Helm):\n%s", cmp.Diff(kustomize, helm))
	}
	golden.wantAll(t, helm+reduced)
}

// operatorPermissions writes the operator's permissions in each kind of namespace.
func operatorPermissions(t *testing.T, cluster *env.Env, b *strings.Builder, title, namespace string) {
	t.Helper()
	account := serviceAccount(namespace, operator)
	everywhere := permissionsIn(t, cluster, "default", account)
	section(b, title+", in every namespace", everywhere)
	if watched := permissionsIn(t, cluster, "watched", account).without(everywhere); len(watched) > 0 {
		section(b, title+", additionally in a watched namespace", watched)
	}
	section(b, title+", additionally in the system namespace", permissionsIn(t, cluster, namespace, account).without(everywhere))
	section(b, title+", additionally in the records namespace", permissionsIn(t, cluster, namespace+"-records", account).without(everywhere))
}

// deployed applies a directory in config and deletes its objects when the test ends.
func deployed(t *testing.T, cluster *env.Env, dir string) {
	t.Helper()
	cluster.Kubectl(t, "apply", "--kustomize", dir)
	t.Cleanup(func() {
		deleteCRDs(t, cluster)
		cluster.Kubectl(t, "delete", "--ignore-not-found", "--kustomize", dir)
	})
	cluster.Kubectl(t, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
}

// installed returns the permissions of an installation.
func installed(t *testing.T, cluster *env.Env, golden *golden, namespace string) string {
	t.Helper()
	elsewhere, recordsNamespace := cluster.Namespace(t), namespace+"-records"
	roles := []string{"manage-api-credentials", "view", "edit", "admin"}
	users := map[string]string{}
	for _, role := range roles {
		users[role] = holder(t, cluster, role)
	}
	return golden.await(t, func(b *strings.Builder) {
		operatorPermissions(t, cluster, b, "operator", namespace)
		section(b, "token server, in the records namespace", permissionsIn(t, cluster, recordsNamespace, serviceAccount(namespace, tokenServer)))
		section(b, "token server, in the system namespace", permissionsIn(t, cluster, namespace, serviceAccount(namespace, tokenServer)))
		section(b, "token server, in every other namespace", permissionsIn(t, cluster, elsewhere, serviceAccount(namespace, tokenServer)))
		section(b, "role "+roles[0], permissionsIn(t, cluster, elsewhere, users[roles[0]]))
		for _, role := range roles[1:] {
			section(b, "Kubernetes role "+role+", for Realmkeeper resources", onlyRealmkeeper(permissionsIn(t, cluster, elsewhere, users[role])))
		}
	})
}

func section(b *strings.Builder, title string, r permissions) { fmt.Fprintf(b, "\n# %s\n%s", title, r) }

// golden holds the text of the golden file.
type golden struct{ text string }

const goldenTitle = "Permissions by account, without those that every account has. To update: go test -C test ./chart -run TestPermissions -update\n"

func readGolden(t *testing.T) *golden {
	t.Helper()
	text, err := os.ReadFile(goldenFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	return &golden{text: string(text)}
}

// settled is the number of unchanged responses after which the permissions are considered final.
const settled = 100

// await returns the sections that write writes when the API server reports them as in the file.
// Role bindings and aggregated roles take effect with a delay.
func (g *golden) await(t *testing.T, write func(*strings.Builder)) string {
	t.Helper()
	var part string
	unchanged := 0
	install.Eventually(t, "the permissions in the golden file; to update it: go test -C test ./chart -run TestPermissions -update", func() error {
		var b strings.Builder
		write(&b)
		before := part
		part = b.String()
		if unchanged++; part != before {
			unchanged = 0
		}
		if *update && unchanged > settled || !*update && strings.Contains(g.text, part) {
			return nil
		}
		return fmt.Errorf("%s differs from the permissions that the API server reports (-want +got):\n%s", goldenFile, cmp.Diff(strings.Split(g.text, "\n"), strings.Split(part, "\n")))
	})
	return part
}

// wantAll fails the test unless the sections make up the whole file. With -update, it writes the
// file.
func (g *golden) wantAll(t *testing.T, sections string) {
	t.Helper()
	got := goldenTitle + sections
	if *update {
		g.text = got
		if err := os.WriteFile(goldenFile, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.Split(g.text, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", goldenFile, diff)
	}
}

// permissions maps resources to verbs. A resource is written as apps/deployments or, for a single
// object, as leases:name.
type permissions map[string][]string

func (r permissions) String() string {
	if len(r) == 0 {
		return "none\n"
	}
	var b strings.Builder
	for _, resource := range slices.Sorted(maps.Keys(r)) {
		fmt.Fprintf(&b, "%-60s %s\n", resource, strings.Join(r[resource], " "))
	}
	return b.String()
}

// without returns the permissions in r that are not in other.
func (r permissions) without(other permissions) permissions {
	beyond := permissions{}
	for resource, verbs := range r {
		verbs = slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return slices.Contains(other[resource], v) })
		if len(verbs) > 0 {
			beyond[resource] = verbs
		}
	}
	return beyond
}

// onlyRealmkeeper returns the permissions for Realmkeeper's resources.
func onlyRealmkeeper(r permissions) permissions {
	part := maps.Clone(r)
	maps.DeleteFunc(part, func(resource string, _ []string) bool {
		return !strings.HasPrefix(resource, v1beta1.GroupVersion.Group+"/")
	})
	return part
}

// permissionsIn returns an account's permissions in a namespace, except those that every account
// has.
func permissionsIn(t *testing.T, cluster *env.Env, namespace, account string) permissions {
	t.Helper()
	return review(t, cluster, namespace, account).without(review(t, cluster, namespace, serviceAccount(namespace, "nobody")))
}

func review(t *testing.T, cluster *env.Env, namespace, account string) permissions {
	t.Helper()
	cfg := rest.CopyConfig(cluster.Config)
	cfg.Impersonate.UserName = account
	impersonated, err := client.New(cfg, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	reviewed := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := impersonated.Create(t.Context(), reviewed); err != nil {
		t.Fatalf("Failed to review the permissions of %s: %v", account, err)
	}
	found := permissions{}
	if reviewed.Status.Incomplete {
		found.add("incomplete: "+reviewed.Status.EvaluationError, nil)
	}
	for _, rule := range reviewed.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := strings.TrimPrefix(group+"/"+resource, "/")
				for _, object := range orAny(rule.ResourceNames) {
					found.add(name+object, rule.Verbs)
				}
			}
		}
	}
	for _, rule := range reviewed.Status.NonResourceRules {
		for _, url := range rule.NonResourceURLs {
			found.add("url "+url, rule.Verbs)
		}
	}
	return found
}

func (r permissions) add(resource string, verbs []string) {
	all := slices.Sorted(slices.Values(slices.Concat(r[resource], verbs)))
	r[resource] = slices.Compact(all)
}

// orAny returns the suffixes that the object names add to their resource.
func orAny(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	suffixes := make([]string, 0, len(names))
	for _, name := range names {
		suffixes = append(suffixes, ":"+name)
	}
	return suffixes
}

func serviceAccount(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// holder returns a user that is bound to a ClusterRole in all namespaces.
func holder(t *testing.T, cluster *env.Env, role string) string {
	t.Helper()
	user := strings.ToLower(t.Name()) + "-" + role
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "holder-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if err := cluster.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	return user
}
