package plugin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
)

var (
	secretLine = regexp.MustCompile(`(?m)^    (rk_[0-9A-Za-z]+)$`)
	inQuestion = client.ObjectKey{Namespace: team, Name: "new-hashed"}
)

// The output of create leads to a token.
func testCreate(t *testing.T, inst *install.Installation, sh *shell) {
	const on = " --realm acme --scope orders.read -n " + team
	out := sh.succeeds(t, "kubectl realmkeeper create client new-client --wait"+on)
	plugin.Golden(t, "create.golden", out)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	sh.succeeds(t, strings.TrimSpace(lines[len(lines)-1]))
	out = sh.succeeds(t, "kubectl realmkeeper create client new-expires --expires-in 90d"+on)
	plugin.Golden(t, "create-without-waiting.golden", out)

	out = sh.succeeds(t, "kubectl realmkeeper create client new-hashed --hashed --wait"+on)
	plugin.Golden(t, "create-hashed.golden", secretLine.ReplaceAllString(out, "    SECRET"))
	hashed := &v1beta1.ApiClient{}
	if err := inst.Env.Client.Get(t.Context(), inQuestion, hashed); err != nil {
		t.Fatal(err)
	}
	// The command before curl gets the certificates that curl needs.
	lines = strings.Split(strings.TrimSpace(out), "\n")
	sh.succeeds(t, strings.TrimSpace(lines[len(lines)-2]))
	if bundle, err := os.ReadFile(filepath.Join(sh.dir, "ca.crt")); err != nil || !bytes.Equal(bundle, inst.CABundle(t)) {
		t.Errorf("ca.crt is %s, %v; want the certificates of the managed CA", bundle, err)
	}
	inst.AwaitTokens(t, &corev1.Secret{Data: map[string][]byte{
		v1beta1.SecretKeyClientID: []byte(hashed.Status.ClientID), v1beta1.SecretKeyTokenURL: []byte(hashed.Status.TokenEndpoint),
		v1beta1.SecretKeyClientSecret: []byte(secretLine.FindStringSubmatch(out)[1]),
	}}, true)

	// Again, with another secret: the client keeps the first one.
	sh.fails(t, "kubectl realmkeeper create client new-hashed --hashed"+on, "ApiClient acme-apps/new-hashed already exists, and nothing was changed")
	again := &v1beta1.ApiClient{}
	if err := inst.Env.Client.Get(t.Context(), inQuestion, again); err != nil || again.Spec.Secret.Hashed[0] != hashed.Spec.Secret.Hashed[0] {
		t.Errorf("A command that failed changed the client: %+v, %v", again.Spec, err)
	}

	sh.succeeds(t, "kubectl realmkeeper create client new-applied --hashed --secret-file new-secret --dry-run=client -o yaml"+on+" | kubectl apply -f -")
	if out := sh.succeeds(t, "kubectl realmkeeper create client new-yaml --wait -o yaml"+on); !strings.Contains(out, "secretName: new-yaml") {
		t.Errorf("With --wait, the object has no status:\n%s", out)
	}
	if out := sh.succeeds(t, "kubectl realmkeeper create client new-dry --dry-run=server"+on); out != "ApiClient acme-apps/new-dry created (server dry run)\n" {
		t.Errorf("A dry run says %q", out)
	}
	sh.fails(t, "kubectl get apiclient new-dry -n "+team, "not found")
}

// A client that its realm would not accept isn't created. The error says what to do.
func testCreateNothing(t *testing.T, inst *install.Installation, sh *shell) {
	inst.Create(t, install.Realm("creating", func(r *v1beta1.Realm) {
		r.Spec.Scopes, r.Spec.Audiences = []string{"read", "write"}, []string{"https://a.example", "https://b.example"}
		r.Spec.Grants = []v1beta1.Grant{{
			Name: "readers", Namespaces: v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchLabels: map[string]v1beta1.LabelValue{corev1.LabelMetadataName: team}}},
			Scopes: []string{"read"}, Audiences: v1beta1.GrantedAudiences{"https://a.example"},
		}}
	}))
	const create, on = "kubectl realmkeeper create client nothing --realm ", " -n " + team
	sh.fails(t, create+"none"+on, "nothing was created", "Realm none not found", "kubectl get realms")
	sh.fails(t, create+"creating --scope admin --scope read"+on, "scopes admin: not defined by Realm creating, which defines read, write")
	sh.fails(t, create+"creating --audience https://c.example"+on, "audiences https://c.example", "https://a.example, https://b.example")
	for more, lacks := range map[string]string{" --scope write": `scope "write"`, " --audience https://b.example": `audience "https://b.example"`} {
		sh.fails(t, create+"creating"+more+on, `The nearest is grant "readers", which lacks `+lacks, "run: kubectl patch realm creating")
	}
	sh.fails(t, create+"creating --scope read -n default", `No grant of Realm "creating" includes namespace "default"`, "run: kubectl patch realm creating")
	sh.fails(t, create+"creating -n nowhere", "namespace nowhere not found", "kubectl create namespace nowhere")
	sh.fails(t, create+"acme --as nobody"+on, "no permission to create ApiClients in namespace acme-apps", "manage-api-credentials", `User "nobody" cannot create`)
	sh.fails(t, "kubectl get apiclient nothing"+on, "not found")
}

// Users of one namespace can't read the realm, so the status of the new client says whether it is accepted.
func testCreateAsTenant(t *testing.T, inst *install.Installation, sh *shell) {
	inst.Create(t, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "creating"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1beta1.GroupVersion.Group}, Resources: []string{"apiclients"}, Verbs: []string{"get", "create"}}},
	}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "creating"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "creating"},
	})
	const on = " --realm acme --wait --as tenant -n " + team
	out := sh.succeeds(t, "kubectl realmkeeper create client of-tenant --scope orders.read"+on)
	if !strings.Contains(out, "You have no permission to get Realm acme") || !strings.Contains(out, "is Ready") {
		t.Errorf("The output says neither what was not checked nor that the client is Ready:\n%s", out)
	}
	rejected := sh.run(t, "kubectl realmkeeper create client of-tenant-2 --scope admin"+on)
	if rejected.Code != 1 || strings.Contains(rejected.Stderr, "realmkeeper:") {
		t.Errorf("A client that is not Ready: exit code %d, %s; want 1 and no other error", rejected.Code, rejected.Stderr)
	}
	plugin.Golden(t, "create-not-ready.golden", rejected.Stdout)
	if again := sh.run(t, "kubectl realmkeeper create client of-tenant-3 --scope admin -o yaml"+on); again.Code != 1 ||
		!strings.Contains(again.Stdout, "reason: ScopeNotInRealm") || !strings.Contains(again.ErrorLine(), "is not Ready (ScopeNotInRealm)") {
		t.Errorf("A client that is not Ready, as YAML: %+v", again)
	}
}
