package manifests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/provision/manifests"
)

const (
	ledgerFile = "acme/apiclient-ledger.yaml"
	ledger     = `# "kubectl realmkeeper create client --for-service-accounts" wrote this file, and leaves it alone if you change it.
# sha256: DIGEST
apiVersion: auth.realmkeeper.dev/v1beta1
kind: ApiClient
metadata:
  labels:
    app.kubernetes.io/managed-by: kubectl-realmkeeper
  name: ledger
  namespace: acme
spec:
  audiences:
  - https://orders.example
  identities:
  - name: service-account
    serviceAccount:
      name: ledger
  realmRef:
    name: acme
  scopes:
  - read
  - write
`
	byPerson = `{apiVersion: auth.realmkeeper.dev/v1beta1, kind: ApiClient, metadata: {name: NAME}, spec: {realmRef: {name: REALM}, identities: [{name: a, serviceAccount: {name: ledger}}]}}`
)

func account(name string, scopes ...string) *v1beta1.ApiClient {
	return manifests.ForAccount(client.ObjectKey{Namespace: "acme", Name: name}, "acme", scopes, []string{"https://orders.example"})
}

// otherClient returns an ApiClient of a person in the cluster.
func otherClient(name, realm string) *v1beta1.ApiClient {
	c := account("ledger", "read")
	c.Name, c.Spec.RealmRef.Name, c.Labels = name, realm, nil
	return c
}

// update reads a folder, writes what differs from the wanted clients, and returns the plan.
func update(t *testing.T, dir string, wanted, existing []*v1beta1.ApiClient) *manifests.Plan {
	t.Helper()
	folder := testkit.Value(manifests.Read(dir))(t)
	plan := testkit.Value(folder.Plan(wanted, existing, ""))(t)
	testkit.Do(t, folder.Write(plan))
	return plan
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	return string(testkit.Value(os.ReadFile(filepath.Join(dir, name)))(t))
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	testkit.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testkit.Do(t, os.WriteFile(path, []byte(content), 0o600))
}

func wantPlan(t *testing.T, want manifests.Plan, got *manifests.Plan) {
	t.Helper()
	if diff := cmp.Diff(want, *got, cmpopts.IgnoreUnexported(want), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Plan (-want +got):\n%s", diff)
	}
}

// The order of scopes doesn't matter, and the same clients change nothing.
func TestWriteAndRepeat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "clients")
	wantPlan(t, manifests.Plan{Create: []string{"acme/apiclient-billing.yaml", ledgerFile}}, update(t, dir, []*v1beta1.ApiClient{account("ledger", "write", "read"), account("billing")}, nil))
	content := read(t, dir, ledgerFile)
	digest, _, _ := strings.Cut(strings.SplitN(content, "sha256: ", 2)[1], "\n")
	testkit.Diff(t, "Manifest", strings.Replace(ledger, "DIGEST", digest, 1), content)
	if info := testkit.Value(os.Stat(filepath.Join(dir, ledgerFile)))(t); info.Mode().Perm() != 0o644 {
		t.Errorf("The mode is %v", info.Mode())
	}
	files := testkit.Value(os.ReadDir(filepath.Join(dir, "acme")))(t)
	if len(files) != 2 {
		t.Errorf("The folder contains %v", files)
	}

	write(t, dir, ledgerFile, strings.ReplaceAll(content, "\n", "\r\n")) // as Git can do
	wantPlan(t, manifests.Plan{Unchanged: 2}, update(t, dir, []*v1beta1.ApiClient{account("billing"), account("ledger", "read", "write")}, nil))

	wantPlan(t, manifests.Plan{Unchanged: 1, Change: []string{ledgerFile}}, update(t, dir, []*v1beta1.ApiClient{account("ledger", "read"), account("billing")}, nil))
	if content := read(t, dir, ledgerFile); strings.Contains(content, "- write") || !strings.Contains(content, "- read") {
		t.Errorf("The changed file is\n%s", content)
	}
	wantPlan(t, manifests.Plan{Unchanged: 1, NoLongerMatching: []string{"acme/apiclient-billing.yaml"}}, update(t, dir, []*v1beta1.ApiClient{account("ledger", "read")}, nil))
	read(t, dir, "acme/apiclient-billing.yaml") // is still there
}

// What a person wrote or changed stays as it is.
func TestByHand(t *testing.T) {
	const name = "acme/ledger"
	replaced := func(old, changed string) func(string) map[string]string {
		return func(content string) map[string]string {
			return map[string]string{ledgerFile: strings.Replace(content, old, changed, 1)}
		}
	}
	person := func(path, text string) func(string) map[string]string {
		return func(string) map[string]string { return map[string]string{path: text} }
	}
	named := func(name, realm string) string {
		return strings.NewReplacer("NAME", name, "REALM", realm).Replace(byPerson)
	}
	changedByHand := manifests.Plan{ByHand: []manifests.Account{{Name: name, Reason: ledgerFile + " was changed by hand"}}}
	created := manifests.Plan{Create: []string{ledgerFile}}
	inCluster := func(reason string) manifests.Plan {
		return manifests.Plan{ByHand: []manifests.Account{{Name: name, Reason: reason}}}
	}
	for title, test := range map[string]struct {
		files    func(generated string) map[string]string
		existing []*v1beta1.ApiClient
		want     manifests.Plan
	}{
		"a changed field":      {files: replaced("- read", "- admin"), want: changedByHand},
		"a comment":            {files: replaced("spec:", "spec: # of the team"), want: changedByHand},
		"no header":            {files: replaced("# sha256: ", "# "), want: changedByHand},
		"a second object":      {files: replaced("spec:", "spec: {}\n---\nspec:"), want: changedByHand},
		"not a client anymore": {files: person(ledgerFile, "kind: ConfigMap"), want: changedByHand},
		"an empty file":        {files: person(ledgerFile, ""), want: changedByHand},
		"another file with the client": {
			files: person("acme/all.yml", "- {op: add}\n---\n"+named("ledger", "other")),
			want:  inCluster("ApiClient acme/ledger is in acme/all.yml"),
		},
		"another client of the account": {
			files: person("acme/all.yaml", "kind: Kustomization\n---\n"+named("books", "acme")),
			want:  inCluster("ApiClient acme/books in acme/all.yaml lists it"),
		},
		"another client of the account in another realm":     {files: person("acme/all.yaml", named("books", "other")), want: created},
		"another client of the account in another namespace": {files: person("other/all.yaml", named("books", "acme")), want: created},
		"a hidden folder":                                  {files: person(".git/acme/all.yaml", named("ledger", "acme")), want: created},
		"another kind of file":                             {files: person("acme/README.md", "\t{{"), want: created},
		"a moved file":                                     {files: func(content string) map[string]string { return map[string]string{"old/acme/l.yaml": content} }, want: inCluster("ApiClient acme/ledger is in old/acme/l.yaml")},
		"the client in the cluster":                        {existing: []*v1beta1.ApiClient{otherClient("ledger", "other")}, want: inCluster("ApiClient acme/ledger is in the cluster")},
		"another client of the account in the cluster":     {existing: []*v1beta1.ApiClient{otherClient("books", "acme")}, want: inCluster("ApiClient acme/books in the cluster lists it")},
		"another client in the cluster, in another realm":  {existing: []*v1beta1.ApiClient{otherClient("books", "other")}, want: created},
		"the client in the cluster, from a generated file": {existing: []*v1beta1.ApiClient{account("ledger", "read")}, want: created},
		"a client that was changed in the cluster": {
			files: replaced("", ""), existing: []*v1beta1.ApiClient{account("ledger", "read")},
			want: manifests.Plan{Unchanged: 1, ChangedInCluster: []string{ledgerFile}},
		},
		"the same client in the cluster": {files: replaced("", ""), existing: []*v1beta1.ApiClient{account("ledger", "read", "write")}, want: manifests.Plan{Unchanged: 1}},
	} {
		t.Run(title, func(t *testing.T) {
			wanted := []*v1beta1.ApiClient{account("ledger", "read", "write")}
			dir := t.TempDir()
			update(t, dir, wanted, nil)
			generated := read(t, dir, ledgerFile)
			testkit.Do(t, os.RemoveAll(filepath.Join(dir, "acme")))
			files := map[string]string{}
			if test.files != nil {
				files = test.files(generated)
			}
			for path, content := range files {
				write(t, dir, path, content)
			}
			wantPlan(t, test.want, update(t, dir, wanted, test.existing))
			for path, content := range files {
				testkit.Diff(t, path, content, read(t, dir, path))
			}
		})
	}
}

// A person can change a file for an account that no longer exists.
func TestChangedFileWithoutAccount(t *testing.T) {
	dir := t.TempDir()
	update(t, dir, []*v1beta1.ApiClient{account("ledger", "read")}, nil)
	write(t, dir, ledgerFile, read(t, dir, ledgerFile)+"  suspend: true\n")
	wantPlan(t, manifests.Plan{Create: []string{"acme/apiclient-billing.yaml"}, NoLongerMatching: []string{ledgerFile}}, update(t, dir, []*v1beta1.ApiClient{account("billing")}, nil))
}

func TestReadErrors(t *testing.T) {
	for content, want := range map[string]string{
		"a: [":          "acme/x.yaml is not valid YAML",
		"a: b\n---\n\t": "acme/x.yaml is not valid YAML",
		strings.Replace(byPerson, "REALM", "[]", 1): "acme/x.yaml has an invalid ApiClient",
	} {
		dir := t.TempDir()
		write(t, dir, "acme/x.yaml", content)
		if _, err := manifests.Read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("With %q: %v, want %q", content, err, want)
		}
	}
}

// An error leaves complete files only, and the next run writes the others.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "beta", "a file in the place of a folder")
	wanted := []*v1beta1.ApiClient{account("ledger"), manifests.ForAccount(client.ObjectKey{Namespace: "beta", Name: "books"}, "acme", nil, nil)}
	folder := testkit.Value(manifests.Read(dir))(t)
	plan := testkit.Value(folder.Plan(wanted, nil, ""))(t)
	if err := folder.Write(plan); err == nil || !strings.Contains(err.Error(), "file exists; 1 of 2 files were written, so repeat the command") {
		t.Errorf("Error is %v", err)
	}
	testkit.Do(t, os.Remove(filepath.Join(dir, "beta")))
	wantPlan(t, manifests.Plan{Unchanged: 1, Create: []string{"beta/apiclient-books.yaml"}}, update(t, dir, wanted, nil))
}

// The realm of an ApiClient can't change, so a run for another realm leaves its file alone.
func TestOtherRealm(t *testing.T) {
	dir := t.TempDir()
	update(t, dir, []*v1beta1.ApiClient{account("ledger", "read")}, nil)
	other := account("ledger", "read")
	other.Spec.RealmRef.Name = "globex"
	byHand := manifests.Plan{ByHand: []manifests.Account{{Name: "acme/ledger", Reason: "ApiClient acme/ledger is of another realm, which cannot be changed"}}}
	wantPlan(t, byHand, update(t, dir, []*v1beta1.ApiClient{other}, nil))
	wantPlan(t, byHand, update(t, t.TempDir(), []*v1beta1.ApiClient{other}, []*v1beta1.ApiClient{account("ledger", "read")}))
}

// A run for one namespace doesn't judge the files of others.
func TestOtherNamespace(t *testing.T) {
	dir := t.TempDir()
	update(t, dir, []*v1beta1.ApiClient{account("ledger", "read")}, nil)
	folder := testkit.Value(manifests.Read(dir))(t)
	wantPlan(t, manifests.Plan{}, testkit.Value(folder.Plan(nil, nil, "beta"))(t))
	wantPlan(t, manifests.Plan{NoLongerMatching: []string{ledgerFile}}, testkit.Value(folder.Plan(nil, nil, "acme"))(t))
}

// Names of service accounts can have 253 characters.
func TestLongName(t *testing.T) {
	dir, long := t.TempDir(), strings.Repeat("a", 252)
	wanted := []*v1beta1.ApiClient{account(long+"a", "read"), account(long+"b", "read")}
	if plan := update(t, dir, wanted, nil); len(plan.Create) != 2 || plan.Create[0] == plan.Create[1] {
		t.Errorf("The files are %v", plan.Create)
	}
	wantPlan(t, manifests.Plan{Unchanged: 2}, update(t, dir, wanted, nil))
}

// Neither a symbolic link nor a name from a hostile API server leads outside of the folder.
func TestStaysInFolder(t *testing.T) {
	outside := t.TempDir()
	for name, c := range map[string]*v1beta1.ApiClient{
		"link":      account("ledger", "read"),
		"name":      account("../../../../evil", "read"),
		"namespace": manifests.ForAccount(client.ObjectKey{Namespace: "..", Name: "ledger"}, "acme", nil, nil),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "clients")
			testkit.Do(t, os.MkdirAll(dir, 0o700))
			if name == "link" {
				testkit.Do(t, os.Symlink(outside, filepath.Join(dir, "acme")))
			}
			folder := testkit.Value(manifests.Read(dir))(t)
			plan := testkit.Value(folder.Plan([]*v1beta1.ApiClient{c}, nil, ""))(t)
			if err := folder.Write(plan); err == nil || !strings.Contains(err.Error(), "path escapes from parent") {
				t.Errorf("Writing: %v", err)
			}
			for _, folder := range []string{outside, filepath.Dir(dir)} {
				if files, err := filepath.Glob(filepath.Join(folder, "*.yaml")); len(files) > 0 || err != nil {
					t.Errorf("%v are outside", files)
				}
			}
		})
	}
}
