package plugin_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var (
	accountCount     = flag.Int("accounts", 50, "Number of service accounts that become clients")
	accountNamespace = flag.Int("accounts.namespaces", 5, "Number of their namespaces")
)

// accountsPlan is the report of create client --for-service-accounts.
type accountsPlan struct {
	Create, Change, ChangedInCluster, NoLongerMatching []string
	Unchanged                                          int
	ByHand, Skipped                                    []struct{ Name, Reason string }
}

// Many service accounts become clients by files for a repository, which a user writes who may only read.
func TestForServiceAccounts(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	inst.Create(t, install.Realm("many", func(r *v1beta1.Realm) {
		r.Spec.Scopes = []string{"orders.read", "orders.write"}
		r.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchLabels: map[string]v1beta1.LabelValue{"granted": "true"}}}
	}))
	accounts := createAccounts(t, cluster)
	reader := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "accounts-reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts", "namespaces"}, Verbs: []string{"list"}},
		{APIGroups: []string{v1beta1.GroupVersion.Group}, Resources: []string{"apiclients"}, Verbs: []string{"list"}},
		{APIGroups: []string{v1beta1.GroupVersion.Group}, Resources: []string{"realms"}, Verbs: []string{"get"}},
	}}
	inst.Create(t, reader, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "reader"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader.Name},
	})
	byPerson := install.ApiClient(accounts[0].Namespace, "by-person", "many", func(c *v1beta1.ApiClient) { c.Spec.Identities = install.ServiceAccounts(accounts[0].Name) })
	inst.Create(t, byPerson)
	user, dir := plugin.NewUser(cluster), filepath.Join(t.TempDir(), "clients")
	run := func(flags ...string) (plan accountsPlan) {
		t.Helper()
		began := time.Now()
		out := user.Succeeds(t, append([]string{
			"create", "client", "--for-service-accounts", "--realm", "many", "--scope", "orders.read", "--selector", "client=true", "--namespaces", "many",
			"--output-dir", dir, "--output", "json", "--as", "reader",
		}, flags...)...)
		if err := json.Unmarshal([]byte(out), &plan); err != nil {
			t.Fatal(err)
		}
		t.Logf("%q: %d created, %d changed, %d unchanged, %d by hand, %d changed in the cluster, %d no longer matching, in %s", flags,
			len(plan.Create), len(plan.Change), plan.Unchanged, len(plan.ByHand), len(plan.ChangedInCluster), len(plan.NoLongerMatching), time.Since(began).Round(time.Millisecond))
		return plan
	}

	wanted := len(accounts) - 1 // A person wrote the client of the first one.
	if plan := run("--dry-run"); len(plan.Create) != wanted || len(plan.ByHand) != 1 || len(plan.Skipped) != 1 || !strings.Contains(plan.Skipped[0].Reason, "No grant") {
		t.Fatalf("The dry run reports %d files, and %+v, %+v; want %d", len(plan.Create), plan.ByHand, plan.Skipped, wanted)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("The dry run wrote a folder: %v", err)
	}
	created := run().Create
	began := time.Now()
	applyFiles(t, cluster, dir, created)
	t.Logf("applied in %s", time.Since(began).Round(time.Millisecond))
	awaitAllReady(t, inst, wanted+1)
	t.Logf("all Ready after %s", time.Since(began).Round(time.Millisecond))

	before := contents(t, dir)
	if plan := run(); plan.Unchanged != wanted || len(plan.Create)+len(plan.Change)+len(plan.ChangedInCluster)+len(plan.NoLongerMatching) > 0 {
		t.Errorf("The command, repeated, reports %+v", plan)
	}
	if after := contents(t, dir); len(after) != wanted || !slices.Equal(before, after) {
		t.Error("The command, repeated, changed files")
	}

	// Ten files and ten ApiClients in the cluster are changed by hand, and an account is deleted.
	files, clients := created[:10], created[10:20]
	for i := range 10 {
		appendTo(t, filepath.Join(dir, files[i]), "  suspend: true\n")
		c := clientIn(t, dir, clients[i])
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Fatal(err)
		}
		install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	}
	gone := clientIn(t, dir, created[20])
	inst.Delete(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: gone.Name}})
	before = contents(t, dir)
	plan := run("--scope", "orders.write", "--dry-run")
	if len(plan.ByHand) != 11 || !slices.Equal(plan.ChangedInCluster, clients) || !slices.Equal(plan.NoLongerMatching, created[20:21]) || len(plan.Change) != wanted-11 {
		t.Errorf("After changes by hand, the command reports %+v", plan)
	}
	for _, file := range files {
		if !slices.ContainsFunc(plan.ByHand, func(a struct{ Name, Reason string }) bool { return a.Reason == file+" was changed by hand" }) {
			t.Errorf("%s is not reported as changed by hand: %+v", file, plan.ByHand)
		}
	}
	if after := contents(t, dir); !slices.Equal(before, after) {
		t.Error("A dry run changed files")
	}
	run("--scope", "orders.write")
	for i, after := range contents(t, dir) {
		name, changed, _ := strings.Cut(after, "\n")
		kept := slices.Contains(files, name) || name == created[20]
		if kept != (after == before[i]) || kept == strings.Contains(changed, "- orders.write") {
			t.Errorf("%s is\n%s", name, changed)
		}
	}
}

// createAccounts creates the service accounts and their namespaces, and others that the test does not select. It returns
// their names, sorted.
func createAccounts(t *testing.T, cluster *env.Env) (accounts []client.ObjectKey) {
	t.Helper()
	var objects []client.Object
	account := func(namespace, name string, labels map[string]string) {
		objects = append(objects, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}})
	}
	selected := map[string]string{"client": "true"}
	namespaces := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many-not-granted", Labels: map[string]string{"many": ""}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many-not-selected", Labels: map[string]string{"granted": "true"}}},
	}
	account("many-not-granted", "app", selected)
	account("many-not-selected", "app", selected)
	for i := range *accountNamespace {
		namespace := fmt.Sprintf("many-%03d", i)
		namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"many": "", "granted": "true"}}})
		account(namespace, "other", nil)
		account(namespace, "default", selected)
		for k := range *accountCount / *accountNamespace {
			accounts = append(accounts, client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("app-%04d", k)})
			account(namespace, accounts[len(accounts)-1].Name, selected)
		}
	}
	createAll(t, cluster, namespaces)
	createAll(t, cluster, objects)
	return accounts
}

// createAll creates many objects, several at a time.
func createAll(t *testing.T, cluster *env.Env, objects []client.Object) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for _, object := range objects {
		group.Go(func() error { return cluster.Client.Create(ctx, object) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// applyFiles creates the objects in the files as they are.
func applyFiles(t *testing.T, cluster *env.Env, dir string, files []string) {
	t.Helper()
	var objects []client.Object
	for _, file := range files {
		for _, object := range objectsIn(t, dir, file) {
			objects = append(objects, object)
		}
	}
	createAll(t, cluster, objects)
}

func objectsIn(t *testing.T, dir, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return install.Objects(t, content)
}

// clientIn returns an ApiClient with the name of the one in a file.
func clientIn(t *testing.T, dir, file string) *v1beta1.ApiClient {
	t.Helper()
	object := objectsIn(t, dir, file)[0]
	return &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// awaitAllReady waits until all ApiClients of the realm are Ready. It fails if nothing changes for minutes.
func awaitAllReady(t *testing.T, inst *install.Installation, want int) {
	t.Helper()
	for ready := ""; ready != strconv.Itoa(want); {
		install.Eventually(t, "more ApiClients to be Ready", func() error {
			now := inst.OperatorMetric(t, `realmkeeper_clients{realm="many",state="Ready"}`)
			if now == ready {
				return fmt.Errorf("%s of %d are Ready", now, want)
			}
			ready = now
			return nil
		})
	}
}

// contents returns the paths and contents of all files in a folder, sorted.
func contents(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimPrefix(file, dir+"/")+"\n"+string(content))
	}
	slices.Sort(all)
	return all
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(content, text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
