package provision_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

// accountsAPI is an API server with a realm that allows the namespaces acme and beta, and service accounts.
type accountsAPI struct {
	objects   map[string]runtime.Object
	forbidden []string
	selectors []string // of the requests
}

func newAccountsAPI() *accountsAPI {
	realm := &v1beta1.Realm{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Realm"}, ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	realm.Spec.Scopes, realm.Spec.Audiences = v1beta1.Scopes{"read", "write"}, v1beta1.Audiences{"https://a.example"}
	realm.Spec.Grants = []v1beta1.Grant{{
		Name: "apps", Namespaces: v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchLabels: map[string]v1beta1.LabelValue{"team": "acme"}}},
		Scopes: v1beta1.GrantedScopes{"read"}, Audiences: v1beta1.GrantedAudiences{"*"}, Issuers: []string{"kubernetes"},
	}}
	namespace := func(name, team string) corev1.Namespace {
		return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	}
	account := func(namespace, name string) corev1.ServiceAccount {
		return corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	deleted, ending := account("acme", "deleted"), namespace("ending", "acme")
	deleted.DeletionTimestamp, ending.DeletionTimestamp = &metav1.Time{}, &metav1.Time{}
	*deleted.DeletionTimestamp, *ending.DeletionTimestamp = metav1.Now(), metav1.Now()
	acme := namespace("acme", "acme")
	acme.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
	return &accountsAPI{objects: map[string]runtime.Object{
		"/apis/auth.realmkeeper.dev/v1beta1/realms/acme": realm,
		"/api/v1/namespaces/acme":                        &acme,
		"/api/v1/namespaces":                             &corev1.NamespaceList{Items: []corev1.Namespace{acme, namespace("beta", "acme"), namespace("other", "other"), ending}},
		"/api/v1/serviceaccounts": &corev1.ServiceAccountList{ListMeta: metav1.ListMeta{Continue: "page2"}, Items: []corev1.ServiceAccount{
			account("acme", "default"), account("acme", "ledger"), deleted, account("ending", "late"),
		}},
		"/api/v1/serviceaccounts?page2":                 &corev1.ServiceAccountList{Items: []corev1.ServiceAccount{account("beta", "ledger"), account("other", "a"), account("other", "b"), account("elsewhere", "c")}},
		"/apis/auth.realmkeeper.dev/v1beta1/apiclients": &v1beta1.ApiClientList{},
		"/api/v1/namespaces/acme/serviceaccounts":       &corev1.ServiceAccountList{Items: []corev1.ServiceAccount{account("acme", "ledger"), account("acme", "books")}},
		"/apis/auth.realmkeeper.dev/v1beta1/namespaces/acme/apiclients": &v1beta1.ApiClientList{Items: []v1beta1.ApiClient{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "books"},
		}}},
	}}
}

func (a *accountsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if next := r.URL.Query().Get("continue"); next != "" {
		path += "?" + next
	}
	a.selectors = append(a.selectors, r.URL.Query().Get("labelSelector"))
	if slices.Contains(a.forbidden, path) {
		fail(w, apierrors.NewForbidden(schema.GroupResource{}, "", nil))
		return
	}
	object, ok := a.objects[path]
	if !ok || r.Method != http.MethodGet {
		fail(w, apierrors.NewNotFound(schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: "realms"}, "none"))
		return
	}
	_ = json.NewEncoder(w).Encode(object)
}

func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.WriteHeader(int(err.ErrStatus.Code))
	_ = json.NewEncoder(w).Encode(err.ErrStatus)
}

// forAccounts runs the command.
func (a *accountsAPI) forAccounts(t *testing.T, more ...string) (code int, stdout, stderr string) {
	t.Helper()
	return plugintest.Run(t, append([]string{"create", "client", "--for-service-accounts", "--realm=acme", plugintest.APIServer(t, a.ServeHTTP)}, more...)...)
}

func TestForServiceAccounts(t *testing.T) {
	dir := t.TempDir()
	api := newAccountsAPI()
	flags := []string{"--scope=read", "--namespaces=", "--selector=app", "--output-dir=" + dir}
	const skipped = `    2 service accounts in other: No grant of Realm "acme" includes namespace
    "other".
`
	const want = `2, change 0; 0 are unchanged, 0 exist by hand and are left alone
  Skipped, because the ApiClients would not be Ready:
` + skipped
	code, stdout, stderr := api.forAccounts(t, append(flags, "--dry-run")...)
	if files := testkit.Value(os.ReadDir(dir))(t); code != 0 || stderr != "" || stdout != "Would create "+want || len(files) > 0 {
		t.Errorf("Dry run: exit code %d, %q, files %v, output:\n%s", code, stderr, files, stdout)
	}
	code, stdout, stderr = api.forAccounts(t, flags...)
	if code != 0 || stderr != "" || stdout != strings.Replace("Created "+want, "change", "changed", 1) {
		t.Errorf("Exit code %d, %q, output:\n%s", code, stderr, stdout)
	}
	for _, name := range []string{"acme/apiclient-ledger.yaml", "beta/apiclient-ledger.yaml"} {
		testkit.Value(os.ReadFile(filepath.Join(dir, name)))(t)
	}

	testkit.Do(t, os.WriteFile(filepath.Join(dir, "acme", "apiclient-ledger.yaml"), nil, 0o600))
	code, stdout, stderr = api.forAccounts(t, append(flags, "--output=json")...)
	var report struct {
		Create           []string
		Unchanged        int
		ByHand           []struct{ Name, Reason string }
		NoLongerMatching []string
		Skipped          []struct {
			Name            string
			ServiceAccounts int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || stderr != "" {
		t.Errorf("Exit code %d, %q, %v", code, stderr, err)
	}
	if report.Unchanged != 1 || len(report.ByHand) != 1 || report.ByHand[0].Name != "acme/ledger" || len(report.Skipped) != 1 || report.Skipped[0].ServiceAccounts != 2 || report.NoLongerMatching == nil {
		t.Errorf("The report is %s", stdout)
	}
	if !strings.Contains(strings.Join(api.selectors, " "), "app") {
		t.Errorf("The selectors of the requests are %q", api.selectors)
	}
}

// In one namespace, permissions in that namespace are sufficient.
func TestForServiceAccountsOfNamespace(t *testing.T) {
	api, dir := newAccountsAPI(), t.TempDir()
	api.forbidden = []string{"/api/v1/namespaces", "/api/v1/namespaces/acme"}
	code, stdout, stderr := api.forAccounts(t, "--scope=read", "--namespace=acme", "--output-dir="+dir)
	const want = `Created 1, changed 0; 0 are unchanged, 1 exist by hand and are left alone
  By hand:
    acme/books: ApiClient acme/books is in the cluster
`
	if code != 0 || stdout != want || !strings.Contains(stderr, "You have no permission to get namespace acme, so grants that select namespaces by label were not checked.") {
		t.Errorf("Exit code %d, %q, output:\n%s", code, stderr, stdout)
	}

	api.forbidden = []string{"/apis/auth.realmkeeper.dev/v1beta1/realms/acme"}
	code, stdout, stderr = api.forAccounts(t, "--scope=unknown", "--namespace=acme", "--output-dir="+dir)
	if code != 0 || !strings.HasPrefix(stdout, "Created 0, changed 1;") || !strings.Contains(stderr, "no permission to get Realm acme, so its scopes and grants were not checked") {
		t.Errorf("Without permission for the realm: exit code %d, %q, output:\n%s", code, stderr, stdout)
	}
}

func TestForServiceAccountsErrors(t *testing.T) {
	dir := t.TempDir()
	invalid := t.TempDir()
	testkit.Do(t, os.WriteFile(filepath.Join(invalid, "x.yaml"), []byte("a: ["), 0o600))
	for name, test := range map[string]struct {
		flags     []string
		forbidden string
		want      string
	}{
		"a name":                      {flags: []string{"billing", "--output-dir=" + dir}, want: "unknown command"},
		"no folder":                   {want: "needs --output-dir"},
		"another flag":                {flags: []string{"--output-dir=" + dir, "--hashed"}, want: "--hashed cannot be used with --for-service-accounts"},
		"dry run of the server":       {flags: []string{"--output-dir=" + dir, "--dry-run=server"}, want: "use --dry-run without a value"},
		"both flags for namespaces":   {flags: []string{"--output-dir=" + dir, "--namespaces=a", "-n=b"}, want: "use either --namespace or --namespaces"},
		"selector":                    {flags: []string{"--output-dir=" + dir, "--selector=a=b=c"}, want: "--selector: "},
		"selector of namespaces":      {flags: []string{"--output-dir=" + dir, "--namespaces=a b"}, want: "--namespaces: "},
		"scope":                       {flags: []string{"--output-dir=" + dir, "--scope=a b"}, want: "repeat the flag for each scope"},
		"scope that is not defined":   {flags: []string{"--output-dir=" + dir, "--scope=admin"}, want: "nothing was created: scopes admin: not defined by Realm acme"},
		"no realm":                    {flags: []string{"--output-dir=" + dir, "--realm=none"}, want: "nothing was created: Realm none not found"},
		"no account":                  {flags: []string{"--output-dir=" + dir, "--namespace=empty"}, want: `no service account in namespace empty matches --selector ""`},
		"a file":                      {flags: []string{"--output-dir=" + filepath.Join(invalid, "x.yaml")}, want: "not a directory"},
		"invalid YAML":                {flags: []string{"--output-dir=" + invalid}, want: "x.yaml is not valid YAML"},
		"no permission for accounts":  {flags: []string{"--output-dir=" + dir, "--namespaces="}, forbidden: "/api/v1/serviceaccounts", want: "listing service accounts: "},
		"no permission for ApiClient": {flags: []string{"--output-dir=" + dir, "--namespaces="}, forbidden: "/apis/auth.realmkeeper.dev/v1beta1/apiclients", want: "listing ApiClients: "},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAccountsAPI()
			api.objects["/api/v1/namespaces/empty"] = &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
			api.objects["/api/v1/namespaces/empty/serviceaccounts"] = &corev1.ServiceAccountList{}
			api.objects["/apis/auth.realmkeeper.dev/v1beta1/namespaces/empty/apiclients"] = &v1beta1.ApiClientList{}
			api.forbidden = []string{test.forbidden}
			code, stdout, stderr := api.forAccounts(t, test.flags...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
				t.Errorf("Exit code %d, %q, %q; want 1 and one line with %q", code, stdout, stderr, test.want)
			}
		})
	}
	if files := testkit.Value(os.ReadDir(dir))(t); len(files) > 0 {
		t.Errorf("Commands that failed wrote %v", files)
	}
}
