package plugin_test

import (
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// hashedSecret returns a secret that the plugin has hashed.
func hashedSecret(t *testing.T, sh *shell) *v1beta1.ClientSecretSource {
	t.Helper()
	hash := strings.TrimSpace(strings.Split(sh.succeeds(t, "kubectl realmkeeper hash --id mine 2>/dev/null"), "hash: ")[1])
	return &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{{ID: "mine", Hash: strings.Trim(hash, `"`)}}}
}

// Errors say what to do instead.
func testErrors(t *testing.T, inst *install.Installation, sh *shell) {
	provided := newClient("provided", func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Provided: &v1beta1.ProvidedSecret{SecretRef: v1beta1.SecretKeyReference{Name: "missing"}}}
	})
	hashed := newClient("hashed", func(c *v1beta1.ApiClient) {
		c.Spec.Secret = hashedSecret(t, sh)
	})
	account := newClient("account", func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.ServiceAccounts("worker")
	})
	inst.Create(t, provided, hashed, account)
	inst.AwaitReady(t, provided, metav1.ConditionFalse, v1beta1.ReasonSecretNotFound)
	for _, verb := range []string{"explain", "rotate"} {
		sh.fails(t, "kubectl realmkeeper "+verb+" apiclient/none -n "+team, "ApiClient acme-apps/none not found", "kubectl get apiclients -A")
		sh.fails(t, "kubectl realmkeeper "+verb+" realm/none", "Realm none not found", "kubectl get realms")
		sh.fails(t, "kubectl realmkeeper "+verb+" billing", "apiclient/NAME")
		sh.fails(t, "kubectl realmkeeper "+verb, "specify one object")
		sh.fails(t, "kubectl realmkeeper "+verb+" realm/acme -o table", "json or yaml")
	}
	const on = " -n " + team
	sh.fails(t, "kubectl realmkeeper status none", "Realm none not found")
	sh.fails(t, "kubectl realmkeeper stale --older 0d", "--older")
	sh.fails(t, "kubectl realmkeeper stale --older soon", "--older")
	// Only a generated secret can be rotated.
	sh.fails(t, "kubectl realmkeeper rotate apiclient/provided"+on, `Secret "missing"`)
	sh.fails(t, "kubectl realmkeeper rotate apiclient/hashed"+on, "kubectl realmkeeper hash")
	sh.fails(t, "kubectl realmkeeper rotate apiclient/account"+on, "kubectl edit apiclient account")
	sh.fails(t, "kubectl realmkeeper revoke apiclient/hashed --secret"+on, "kubectl realmkeeper hash")
	sh.fails(t, "kubectl realmkeeper revoke realm/acme --secret", "a Realm has no secret")
	// If the command waits, an object that isn't Ready can't be rotated or resumed.
	sh.fails(t, "kubectl realmkeeper rotate apiclient/shipping"+on, "is not Ready (ScopeNotInRealm)", "kubectl realmkeeper explain apiclient/shipping")
	sh.fails(t, "kubectl realmkeeper resume apiclient/shipping --wait"+on, "is not Ready (ScopeNotInRealm)")
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(hashed), hashed); err != nil || hashed.Spec.TokensValidAfterTime != nil {
		t.Errorf("A command that failed changed the client: %+v, %v", hashed.Spec, err)
	}
}

// A user who may only read realms and clients sees their status and a note about the missing parts.
func testPermissions(t *testing.T, inst *install.Installation, sh *shell) {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "plugin-viewer"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1beta1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}},
	}
	inst.Create(t, role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "plugin-viewer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "viewer"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	})
	out := strings.Join(strings.Fields(sh.succeeds(t, "kubectl realmkeeper status --as viewer")), " ")
	for _, want := range []string{"ScopeNotInRealm", "no permission to list Deployments", "token-server-1"} {
		if !strings.Contains(out, want) {
			t.Errorf("status for a user without permissions does not contain %q: %s", want, out)
		}
	}
	if strings.Contains(out, "No token server is running") {
		t.Errorf("status reports token servers that the user may not read as missing: %s", out)
	}
	role.Rules[0].Resources = []string{"realms", "apiclients"}
	if err := inst.Env.Client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	install.Eventually(t, "status without permission for the Instance", func() error {
		if out := sh.succeeds(t, "kubectl realmkeeper status --as viewer"); !strings.Contains(strings.Join(strings.Fields(out), " "), "no permission to get the Instance") {
			return errors.New(out)
		}
		return nil
	})
	if out := sh.succeeds(t, "kubectl realmkeeper explain apiclient/billing --as viewer -n "+team); !strings.Contains(out, "Events could not be read") {
		t.Errorf("explain does not say that Events are missing: %s", out)
	}
	sh.fails(t, "kubectl realmkeeper suspend apiclient/billing --as viewer -n "+team, "forbidden")
	sh.fails(t, "kubectl realmkeeper status --as stranger", "forbidden")
}

// The plugin doesn't change a field that a tool sets from Git, because the tool would revert the
// change.
func testManagedByGitOps(t *testing.T, inst *install.Installation, sh *shell) {
	c := newClient("managed", func(c *v1beta1.ApiClient) {
		c.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop:auth.realmkeeper.dev/ApiClient:acme-apps/managed"}
		c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{
			Rotation: v1beta1.SecretRotation{RotationRequestTime: &metav1.Time{Time: metav1.Now().AddDate(-1, 0, 0)}},
		}}
	})
	if err := inst.Env.Client.Create(t.Context(), c, client.FieldOwner("argocd-controller")); err != nil {
		t.Fatal(err)
	}
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	sh.fails(t, "kubectl realmkeeper rotate apiclient/managed -n "+team,
		"Argo CD (application shop) sets spec.secret.generated.rotation.rotationRequestTime", "in Argo CD instead", "--force")
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil || len(c.Status.Secrets()) != 1 {
		t.Errorf("A command that failed rotated the secret: %+v, %v", c.Status.Secrets(), err)
	}
	if out := sh.succeeds(t, "kubectl realmkeeper explain apiclient/managed -n "+team); !strings.Contains(out, "Argo CD (application shop)") {
		t.Errorf("explain does not name Argo CD:\n%s", out)
	}
	// Argo CD doesn't set spec.suspend, so it keeps the change.
	sh.succeeds(t, "kubectl realmkeeper suspend apiclient/managed -n "+team)
	sh.succeeds(t, "kubectl realmkeeper resume apiclient/managed --wait -n "+team)
	sh.succeeds(t, "kubectl realmkeeper rotate apiclient/managed --force -n "+team)
}

// kubectl completes the arguments of plugins with a program on the PATH.
func testCompletion(t *testing.T, inst *install.Installation, sh *shell) {
	usable(t, inst, "completed")
	for line, want := range map[string]string{
		`kubectl __complete realmkeeper explain apiclient/ -n ` + team + ` ""`:    "",
		`kubectl __complete realmkeeper rotate -n ` + team + ` apiclient/comp`:    "apiclient/completed",
		`kubectl __complete realmkeeper explain realm/`:                           "realm/acme",
		`kubectl __complete realmkeeper explain ""`:                               "apiclient/",
		`kubectl __complete realmkeeper status ""`:                                "acme",
		`kubectl __complete realmkeeper token -n ` + team + ` ""`:                 "completed",
		`kubectl __complete realmkeeper stale --realm ""`:                         "acme",
		`kubectl __complete realmkeeper stale -n ""`:                              team,
		`kubectl __complete realmkeeper stale -o ""`:                              "yaml",
		`kubectl __complete realmkeeper create client x --realm ""`:               "acme",
		`kubectl __complete realmkeeper create client --realm acme --scope ""`:    "orders.write",
		`kubectl __complete realmkeeper create client --realm acme --audience ""`: "https://orders.acme.example",
		`kubectl __complete realmkeeper create client --dry-run=`:                 "server",
		`kubectl __complete realmkeeper create ""`:                                "client",
		`kubectl __complete realmkeeper ""`:                                       "explain",
	} {
		out := sh.succeeds(t, line)
		found := false
		for l := range strings.Lines(out) {
			value, _, _ := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
			found = found || value == want
		}
		if want != "" && !found {
			t.Errorf("%s: %q does not contain %q", line, out, want)
		}
	}
}

// A new credential isn't stale. If a credential was never used, its age counts from its creation.
func testStale(t *testing.T, inst *install.Installation, sh *shell) {
	c := usable(t, inst, "stale")
	if got := sh.run(t, "kubectl realmkeeper stale -n "+team); got.Code != 0 || got.Stdout != "" || !strings.Contains(got.Stderr, "No credentials were unused for 90d in namespace acme-apps.") {
		t.Errorf("stale without stale credentials: %+v", got)
	}
	install.Eventually(t, "the secret to be a second old", func() error {
		if out := sh.succeeds(t, "kubectl realmkeeper stale --older 1s --realm acme -A"); !strings.Contains(out, c.Status.Secrets()[0].Name) {
			return errNotListed
		}
		return nil
	})
	if out := sh.succeeds(t, "kubectl realmkeeper stale --older 1s --realm none -A -o json"); strings.Contains(out, `"client"`) {
		t.Errorf("stale of another realm has credentials: %s", out)
	}
}
