//go:build beside

package beside_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestFirefox creates, changes, and deletes a client on the pages of the portal with Firefox. The tests of the portal do
// more with Chromium.
func TestFirefox(t *testing.T) {
	if !selected(t, "Firefox") {
		return
	}
	cluster := env.Start(t)
	i := install.New(t, cluster, install.Settings{})
	for _, role := range []string{"manage_api_credentials_role.yaml", "aggregated_roles.yaml"} {
		i.ApplyFile(t, "config", "rbac", role)
	}
	realm := install.Realm("acme", func(r *v1beta1.Realm) { r.Spec.Scopes = []string{"orders.read"} })
	i.Create(t, realm)
	i.StartOperator(t, "")
	i.StartTokenServer(t)
	i.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	token := i.ServiceAccount(t, i.Namespace, "admin")
	i.Bind(t, "manage-api-credentials", "", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: i.Namespace, Name: "admin"})
	team := cluster.Namespace(t)

	u := setup{dir: t.TempDir()}
	firefox := u.script(t, "node", nodeFile(t, "firefox.mjs"), i.StartPortal(t).URL, token, team)
	step := func(name string) string {
		result, _, _ := strings.Cut(firefox.call(name), " after ")
		return result
	}
	want := func(name, result string) {
		t.Helper()
		if got := step(name); got != result {
			t.Fatalf("%s: the page shows %q, want %q", name, got, result)
		}
	}
	// tokens waits until the token servers accept or reject the secret.
	tokens := func(secret string, accepted bool) {
		t.Helper()
		i.AwaitTokens(t, &corev1.Secret{Data: map[string][]byte{
			v1beta1.SecretKeyTokenURL: []byte(realm.Status.TokenEndpoint), v1beta1.SecretKeyClientID: []byte(team + ".billing"),
			v1beta1.SecretKeyClientSecret: []byte(secret),
		}}, accepted)
	}
	want("sign in", "admin")
	first := step("create")
	if !clientsecret.WellFormed(first) {
		t.Fatalf("create: the page shows %q, want a secret", first)
	}
	tokens(first, true)
	second := step("rotate")
	tokens(second, true)
	want("revoke", "done")
	tokens(first, false)
	want("suspend", "done")
	tokens(second, false)
	want("resume", "done")
	tokens(second, true)
	want("expire", "done")
	tokens(second, false)
	want("delete", "Not found")
	want("sign out", "Sign in")
}
