package chart_test

import (
	"errors"
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

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	goldenRights = "testdata/rights.txt"
	operator     = "realmkeeper-operator"
	tokenServer  = "realmkeeper-token-server"
)

// Everybody's rights are those in the golden file, as the API server tells them; by the
// chart, and by the manifests in config.
func TestRights(t *testing.T) {
	env := testenv.Start(t)
	golden := readGolden(t)
	var tokenServers string
	t.Run("token server", func(t *testing.T) {
		deployed(t, env, "../../config/crd")
		i := testinstall.New(t, env, testinstall.Settings{})
		t.Cleanup(func() { kubectl(t, env, "delete", "clusterrole,clusterrolebinding", operator) })
		i.StartOperator(t, "") // it gives the token server its rights
		elsewhere := env.Namespace(t)
		account := serviceAccount(i.Namespace, tokenServer)
		testinstall.Eventually(t, "rights of the token server", func() error {
			if len(rightsIn(t, env, i.Namespace, account)) == 0 {
				return errors.New("it has none")
			}
			return nil
		})
		tokenServers = golden.await(t, func(b *strings.Builder) {
			section(b, "token server, in the system namespace", rightsIn(t, env, i.Namespace, account))
			section(b, "token server, in every other namespace", rightsIn(t, env, elsewhere, account))
		})
	})
	t.Run("kustomize", func(t *testing.T) {
		deployed(t, env, "../../config/overlays/testing")
		golden.wantAll(t, installed(t, env, golden, "realmkeeper-system")+tokenServers)
	})
	t.Run("Helm", func(t *testing.T) {
		r := install(t, helm4, values["defaults"]...)
		golden.wantAll(t, installed(t, env, golden, r.namespace)+tokenServers)
	})
}

// deployed applies a directory of config until the test ends.
func deployed(t *testing.T, env *testenv.Env, dir string) {
	t.Helper()
	kubectl(t, env, "apply", "--kustomize", dir)
	t.Cleanup(func() { kubectl(t, env, "delete", "--kustomize", dir) })
	kubectl(t, env, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
}

// installed returns the part of the golden file on what an installation grants.
func installed(t *testing.T, env *testenv.Env, golden *golden, namespace string) string {
	t.Helper()
	elsewhere := env.Namespace(t)
	roles := []string{"manage-api-credentials", "view", "edit", "admin"}
	people := map[string]string{}
	for _, role := range roles {
		people[role] = holder(t, env, role)
	}
	return golden.await(t, func(b *strings.Builder) {
		everywhere := rightsIn(t, env, elsewhere, serviceAccount(namespace, operator))
		here := rightsIn(t, env, namespace, serviceAccount(namespace, operator))
		section(b, "operator, in every namespace", everywhere)
		section(b, "operator, in the system namespace: that, and", here.without(everywhere))
		section(b, "role "+roles[0], rightsIn(t, env, elsewhere, people[roles[0]]))
		for _, role := range roles[1:] {
			section(b, "role "+role+" of Kubernetes, of ours", ours(rightsIn(t, env, elsewhere, people[role])))
		}
	})
}

func section(b *strings.Builder, title string, r rights) { fmt.Fprintf(b, "\n# %s\n%s", title, r) }

// golden is the golden file.
type golden struct{ text string }

const goldenTitle = "Who may do what, beyond what every account may. Made by: go test -C test ./chart -run TestRights -update\n"

func readGolden(t *testing.T) *golden {
	t.Helper()
	text, err := os.ReadFile(goldenRights)
	if err != nil && !*update {
		t.Fatal(err)
	}
	return &golden{text: string(text)}
}

// settled is how often the API server is asked before what it says is taken for the last word.
const settled = 100

// await returns a part of the file once the API server tells it so: bindings take hold, and
// roles are aggregated, with a delay.
func (g *golden) await(t *testing.T, write func(*strings.Builder)) string {
	t.Helper()
	var part string
	unchanged := 0
	testinstall.Eventually(t, "rights; if they shall be so: go test -C test ./chart -run TestRights -update", func() error {
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
		// What is missing here may be in the other part.
		return fmt.Errorf("%s and the API server differ (-want +got):\n%s", goldenRights, cmp.Diff(strings.Split(g.text, "\n"), strings.Split(part, "\n")))
	})
	return part
}

// wantAll fails the test unless the parts are the whole file; asked to update, it writes it.
func (g *golden) wantAll(t *testing.T, parts string) {
	t.Helper()
	got := goldenTitle + parts
	if *update {
		g.text = got
		if err := os.WriteFile(goldenRights, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.Split(g.text, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", goldenRights, diff)
	}
}

// rights are verbs by resource, as in apps/deployments or, of one object, leases:name.
type rights map[string][]string

func (r rights) String() string {
	if len(r) == 0 {
		return "nothing\n"
	}
	var b strings.Builder
	for _, resource := range slices.Sorted(maps.Keys(r)) {
		fmt.Fprintf(&b, "%-60s %s\n", resource, strings.Join(r[resource], " "))
	}
	return b.String()
}

// without returns what r has beyond the other.
func (r rights) without(other rights) rights {
	beyond := rights{}
	for resource, verbs := range r {
		verbs = slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return slices.Contains(other[resource], v) })
		if len(verbs) > 0 {
			beyond[resource] = verbs
		}
	}
	return beyond
}

// ours returns the part of r that is about our resources.
func ours(r rights) rights {
	part := maps.Clone(r)
	maps.DeleteFunc(part, func(resource string, _ []string) bool {
		return !strings.HasPrefix(resource, v1alpha1.GroupVersion.Group+"/")
	})
	return part
}

// rightsIn asks the API server what an account may do in a namespace, beyond what one may to
// which nobody has given anything.
func rightsIn(t *testing.T, env *testenv.Env, namespace, account string) rights {
	t.Helper()
	return review(t, env, namespace, account).without(review(t, env, namespace, serviceAccount(namespace, "nobody")))
}

func review(t *testing.T, env *testenv.Env, namespace, account string) rights {
	t.Helper()
	cfg := rest.CopyConfig(env.Config)
	cfg.Impersonate.UserName = account
	impersonated, err := client.New(cfg, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	answer := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := impersonated.Create(t.Context(), answer); err != nil {
		t.Fatalf("Asking for the rights of %s: %v", account, err)
	}
	found := rights{}
	if answer.Status.Incomplete {
		found.add("incomplete: "+answer.Status.EvaluationError, nil)
	}
	for _, rule := range answer.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := strings.TrimPrefix(group+"/"+resource, "/")
				for _, object := range orAny(rule.ResourceNames) {
					found.add(name+object, rule.Verbs)
				}
			}
		}
	}
	for _, rule := range answer.Status.NonResourceRules {
		for _, url := range rule.NonResourceURLs {
			found.add("url "+url, rule.Verbs)
		}
	}
	return found
}

func (r rights) add(resource string, verbs []string) {
	all := slices.Sorted(slices.Values(slices.Concat(r[resource], verbs)))
	r[resource] = slices.Compact(all)
}

// orAny returns what names of objects add to that of their resource.
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

// holder returns a person that holds a ClusterRole in every namespace.
func holder(t *testing.T, env *testenv.Env, role string) string {
	t.Helper()
	person := strings.ToLower(t.Name()) + "-" + role
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "holder-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: person}},
	}
	if err := env.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	return person
}
