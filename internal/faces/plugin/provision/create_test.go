package provision_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

var errQuota = errors.New("exceeded quota: clients")

var secretFormat = regexp.MustCompile(`rk_[0-9A-Za-z]+`)

// With --dry-run=client, standard output is a manifest, and the secret of its hash is somewhere else.
func TestCreateClientManifest(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none")) // There is no cluster.
	file := filepath.Join(t.TempDir(), "secret")
	arguments := []string{
		"create", "client", "billing", "--realm=acme", "--scope=orders.read", "--scope=orders.write", "--audience=https://orders.example",
		"--expires-in=90d", "--hashed", "--dry-run=client", "--output=yaml",
	}
	code, stdout, stderr := plugintest.Run(t, append(arguments, "--namespace=acme-apps")...)
	wantHashOf(t, hashIn(t, stdout).Hash, secretFormat.FindString(stderr), false)
	c := &v1beta1.ApiClient{}
	testkit.Do(t, yaml.UnmarshalStrict([]byte(stdout), c))
	if code != 0 || secretFormat.MatchString(stdout) || c.Spec.ExpirationTime == nil {
		t.Errorf("Exit code %d, stdout:\n%s", code, stdout)
	}
	c.Spec.Secret, c.Spec.ExpirationTime = nil, nil
	testkit.Diff(t, "Object", v1beta1.ApiClient{
		TypeMeta:   metav1.TypeMeta{APIVersion: "auth.realmkeeper.dev/v1beta1", Kind: "ApiClient"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme-apps", Name: "billing"},
		Spec: v1beta1.ApiClientSpec{
			RealmRef: v1beta1.RealmReference{Name: "acme"}, Scopes: v1beta1.Scopes{"orders.read", "orders.write"}, Audiences: v1beta1.Audiences{"https://orders.example"},
		},
	}, *c)
	code, stdout, stderr = plugintest.Run(t, append(arguments, "--secret-file="+file)...)
	wantHashOf(t, hashIn(t, stdout).Hash, string(testkit.Value(os.ReadFile(file))(t)), false)
	if info := testkit.Value(os.Stat(file))(t); code != 0 || stderr != "" || info.Mode().Perm() != 0o600 || strings.Contains(stdout, "namespace:") {
		t.Errorf("With --secret-file and no namespace: exit code %d, %s, mode %v, %s", code, stderr, info.Mode(), stdout)
	}
	// Without the hash, which is not shown, the secret is useless.
	code, stdout, stderr = plugintest.Run(t, "create", "client", "billing", "--realm=acme", "--hashed", "--dry-run")
	if code != 0 || stdout != "ApiClient billing created (dry run)\n" || stderr != "" {
		t.Errorf("Without --output: exit code %d, %q, %q", code, stdout, stderr)
	}
}

func TestCreateClientErrors(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no name":          {[]string{"--realm=acme"}, "one name"},
		"with a kind":      {[]string{"apiclient/billing", "--realm=acme"}, "one name"},
		"no realm":         {[]string{"billing"}, `"realm" not set`},
		"name":             {[]string{"Billing", "--realm=acme"}, "the name \"Billing\" must have only lowercase letters"},
		"realm":            {[]string{"billing", "--realm=Acme"}, "must be a valid Realm name"},
		"scopes in one":    {[]string{"billing", "--realm=acme", "--scope=a b"}, "repeat the flag for each scope"},
		"the same scope":   {[]string{"billing", "--realm=acme", "--scope=a", "--scope=a"}, "--scope \"a\" is given twice"},
		"expiration":       {[]string{"billing", "--realm=acme", "--expires-in=soon"}, "--expires-in must be a positive duration"},
		"output":           {[]string{"billing", "--realm=acme", "--output=table"}, "json or yaml"},
		"dry run":          {[]string{"billing", "--realm=acme", "--dry-run=maybe"}, "none, client, or server"},
		"wait for nothing": {[]string{"billing", "--realm=acme", "--wait"}, "--wait cannot be used with --dry-run"},
		"secret file":      {[]string{"billing", "--realm=acme", "--secret-file=x"}, "--secret-file needs --hashed"},
		"existing file":    {[]string{"billing", "--realm=acme", "--hashed", "--output=yaml", "--secret-file=/dev/null"}, "file exists"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := plugintest.Run(t, append([]string{"create", "client", "--dry-run"}, test.args...)...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
				t.Errorf("Exit code %d, %q, %q; want 1 and one line with %q", code, stdout, stderr, test.want)
			}
		})
	}
}

// If the API server doesn't create the client, no secret is shown or left in a file, because a user could take it
// for that of an existing client.
func TestCreateClientFails(t *testing.T) {
	resource := schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: "apiclients"}
	for name, test := range map[string]struct {
		err  *apierrors.StatusError
		want []string
	}{
		"the client exists": {apierrors.NewAlreadyExists(resource, "billing"), []string{
			"ApiClient acme/billing already exists, and nothing was changed", "kubectl realmkeeper explain apiclient/billing -n acme",
		}},
		"no namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "acme"), []string{"nothing was created: namespace acme not found", "kubectl create namespace acme"}},
		"quota":        {apierrors.NewForbidden(resource, "billing", errQuota), []string{"nothing was created", "exceeded quota"}},
		// The object may have been stored.
		"timeout": {apierrors.NewTimeoutError("etcd", 1), []string{"unknown whether it was created", "kubectl get apiclient billing -n acme", "delete it"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			flag := plugintest.APIServer(t, func(w http.ResponseWriter, r *http.Request) {
				status := test.err.ErrStatus
				if r.Method == http.MethodGet { // the Realm
					status = apierrors.NewForbidden(schema.GroupResource{}, "", nil).ErrStatus
				}
				status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				w.WriteHeader(int(status.Code))
				_ = json.NewEncoder(w).Encode(status)
			})
			for _, more := range []string{"--output=yaml", "--secret-file=" + file} {
				code, stdout, stderr := plugintest.Run(t, "create", "client", "billing", "--realm=acme", "--hashed", "--namespace=acme", flag, more)
				if code != 1 || stdout != "" || secretFormat.MatchString(stderr) {
					t.Errorf("With %s: exit code %d, %q, %q; want 1 and no secret", more, code, stdout, stderr)
				}
				for _, want := range test.want {
					if !strings.Contains(stderr, want) {
						t.Errorf("Error is %q, want %q", stderr, want)
					}
				}
			}
			if _, err := os.Stat(file); !os.IsNotExist(err) {
				t.Errorf("The secret of no client is in the file: %v, want %v", err, fs.ErrNotExist)
			}
		})
	}
}

// The plugin creates only a client that the operator would accept, and says what the nearest grant lacks in the same
// words as its condition.
func TestCreateClientNeedsGrant(t *testing.T) {
	grant := func(namespace string, audiences ...string) v1beta1.Grant {
		return v1beta1.Grant{Name: "readers", Namespaces: v1beta1.GrantedNamespaces{Names: []string{namespace}}, Scopes: v1beta1.GrantedScopes{"read"}, Audiences: audiences}
	}
	selecting := grant("", "*")
	selecting.Namespaces = v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchLabels: map[string]v1beta1.LabelValue{"team": "acme"}}}
	const nearest = `No single grant of Realm "acme" covers this client, and grants are never combined. The nearest is grant "readers", which lacks `
	for name, test := range map[string]struct {
		grant     v1beta1.Grant
		audiences []string // of the Realm
		flags     []string
		want      string // error; empty if the client is created
	}{
		"covered":                              {grant: grant("acme", "a")},
		"audience that the Realm has no more":  {grant: grant("acme", "retired"), want: nearest + "an audience that the Realm defines. "},
		"no audience":                          {grant: grant("acme"), want: nearest + "an audience that the Realm defines. "},
		"audience of another grant":            {grant: grant("acme", "a"), flags: []string{"--audience=b"}, want: nearest + `audience "b". `},
		"scope of another grant":               {grant: grant("acme", "a"), flags: []string{"--scope=read", "--scope=write"}, want: nearest + `scope "write". `},
		"another namespace":                    {grant: grant("other", "*"), want: `No grant of Realm "acme" includes namespace "acme". Choose another namespace`},
		"labels that can't be read":            {grant: selecting},
		"labels that can't be read, no scope":  {grant: selecting, flags: []string{"--scope=write"}, want: `No grant of Realm "acme" includes namespace "acme". `},
		"Realm without an issuer":              {grant: grant("acme", "https://acme.example"), audiences: []string{}},
		"Realm without an issuer, other scope": {grant: grant("acme", "*"), audiences: []string{}, flags: []string{"--scope=write"}, want: nearest + `scope "write". `},
	} {
		t.Run(name, func(t *testing.T) {
			realm := &v1beta1.Realm{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Realm"}, ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
			realm.Spec.Scopes, realm.Spec.Audiences, realm.Spec.Grants = v1beta1.Scopes{"read", "write"}, v1beta1.Audiences{"a", "b"}, []v1beta1.Grant{test.grant}
			if test.audiences != nil {
				realm.Spec.Audiences = test.audiences
			}
			created := false
			flag := plugintest.APIServer(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/apiclients"):
					created = true
					_, _ = io.Copy(w, r.Body)
				case r.URL.Path == "/apis/auth.realmkeeper.dev/v1beta1/realms/acme":
					_ = json.NewEncoder(w).Encode(realm)
				default:
					status := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "acme", nil).ErrStatus
					w.WriteHeader(http.StatusForbidden)
					_ = json.NewEncoder(w).Encode(status)
				}
			})
			code, _, stderr := plugintest.Run(t, append([]string{"create", "client", "billing", "--realm=acme", "--namespace=acme", "--output=yaml", flag}, test.flags...)...)
			if (code == 0) != (test.want == "") || created != (code == 0) || !strings.Contains(stderr, test.want) {
				t.Errorf("Exit code %d, created: %t, %q; want %q", code, created, stderr, test.want)
			}
		})
	}
}
