package plugin_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// usable creates a client and waits until it is usable.
func usable(t *testing.T, inst *install.Installation, name string, change ...func(*v1beta1.ApiClient)) *v1beta1.ApiClient {
	t.Helper()
	c := newClient(name, change...)
	inst.Create(t, c)
	scenario.AwaitUsable(t, inst, c)
	return c
}

// The plugin finds the credentials of a client, also with other names of the Secret and of its keys.
func testToken(t *testing.T, inst *install.Installation, sh *shell) {
	renamed := newClient("renamed", func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{
			SecretName: "elsewhere",
			Keys:       map[string]v1beta1.SecretDataKey{"client_id": "USER", "client_secret": "PASSWORD", "token_url": "URL"},
		}}
	})
	inst.Create(t, renamed)
	inst.AwaitReady(t, renamed, metav1.ConditionTrue, v1beta1.ReasonReady)
	if out := sh.succeeds(t, "kubectl realmkeeper token renamed -n "+team); !strings.Contains(out, `"`+renamed.Status.ClientID+`"`) {
		t.Errorf("The claims don't contain the client ID %s: %s", renamed.Status.ClientID, out)
	}
	issued(t, strings.TrimSpace(sh.succeeds(t, "kubectl realmkeeper token billing -o token -n "+team)))
	sh.fails(t, "kubectl realmkeeper token reports -n "+team, "Set spec.suspend to false to resume it.")
	sh.fails(t, "kubectl realmkeeper token none -n "+team, "none")
}

// With --wait, a command returns only after every token server has loaded the change.
func testSuspendAndResume(t *testing.T, inst *install.Installation, sh *shell) {
	c := usable(t, inst, "suspension")
	credentials := inst.CredentialsSecret(t, c)
	plugin.Golden(t, "suspend.golden", sh.succeeds(t, "kubectl realmkeeper suspend apiclient/suspension -n "+team+" --wait"))
	for _, s := range inst.Servers() {
		if a, err := install.RequestToken(t, s, s.Client(t), credentials); err != nil || a.AccessToken != "" {
			t.Errorf("%s issued a token to a suspended client: %v", s.Name, err)
		}
	}
	plugin.Golden(t, "suspend-again.golden", sh.succeeds(t, "kubectl realmkeeper suspend apiclient/suspension -n "+team))
	plugin.Golden(t, "resume.golden", sh.succeeds(t, "kubectl realmkeeper resume apic/suspension -n "+team+" --wait"))
	scenario.AwaitUsable(t, inst, c)

	inst.Create(t, install.Realm("suspension"))
	sh.succeeds(t, "kubectl realmkeeper suspend realm/suspension --wait")
	if got := sh.run(t, "kubectl realmkeeper explain realm/suspension"); got.Code != 1 || !strings.Contains(got.Stdout, "kubectl realmkeeper resume realm/suspension") {
		t.Errorf("explain of a suspended realm: %+v", got)
	}
	sh.succeeds(t, "kubectl realmkeeper resume realm/suspension --wait -o yaml")
}

// A released client ID goes to the client that waits for it.
func testRelease(t *testing.T, inst *install.Installation, sh *shell) {
	named := func(name string) *v1beta1.ApiClient {
		return install.ApiClient(team, name, "releasing", func(c *v1beta1.ApiClient) { c.Spec.ClientID = "payments" })
	}
	holder, heir := named("holder"), named("heir")
	inst.Create(t, install.Realm("releasing"), holder)
	inst.AwaitReady(t, holder, metav1.ConditionTrue, v1beta1.ReasonReady)
	inst.Create(t, heir)
	inst.AwaitReady(t, heir, metav1.ConditionFalse, v1beta1.ReasonClientIDConflict)
	plugin.Golden(t, "release.golden", sh.succeeds(t, "kubectl realmkeeper release apiclient/holder -n "+team))
	inst.AwaitReady(t, heir, metav1.ConditionTrue, v1beta1.ReasonReady)
	plugin.Golden(t, "release-realm.golden", sh.succeeds(t, "kubectl realmkeeper release realm/releasing"))
	sh.fails(t, "kubectl realmkeeper release apiclient/none -n "+team, "none")
}

func testRevoke(t *testing.T, inst *install.Installation, sh *shell) {
	c := usable(t, inst, "revocation")
	server := inst.Servers()[0]
	credentials := inst.CredentialsSecret(t, c)
	before, err := install.RequestToken(t, server, server.Client(t), credentials)
	if err != nil {
		t.Fatal(err)
	}
	plugin.Golden(t, "revoke.golden", sh.succeeds(t, "kubectl realmkeeper revoke apiclient/revocation -n "+team+" --wait"))
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	if c.Spec.TokensValidAfterTime == nil || before.AccessToken == "" || !issued(t, before.AccessToken).Before(c.Spec.TokensValidAfterTime.Time) {
		t.Errorf("tokensValidAfterTime is %v, want a time after the token was issued", c.Spec.TokensValidAfterTime)
	}
	scenario.AwaitUsable(t, inst, c)
}

// issued returns the time at which a token was issued.
func issued(t *testing.T, accessToken string) time.Time {
	t.Helper()
	var claims struct {
		IssuedAt int64 `json:"iat"`
	}
	if err := install.Claims(accessToken, &claims); err != nil {
		t.Fatal(err)
	}
	return time.Unix(claims.IssuedAt, 0)
}

// The old secret is rejected as soon as the command has returned. The command doesn't wait for a hashed secret
// that the generated one has replaced. The Secret keeps what others have added.
func testRevokeSecret(t *testing.T, inst *install.Installation, sh *shell) {
	c := newClient("leaked", func(c *v1beta1.ApiClient) { c.Spec.Secret = hashedSecret(t, sh) })
	inst.Create(t, c)
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	install.Change(t, inst, c, func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
	})
	scenario.AwaitUsable(t, inst, c)
	old := inst.CredentialsSecret(t, c)
	annotated := old.DeepCopy()
	annotated.Annotations["reloader.stakater.com/match"], annotated.Labels["backup"], annotated.Data["own"] = "true", "yes", []byte("kept")
	if err := inst.Env.Client.Patch(t.Context(), annotated, client.MergeFrom(old)); err != nil {
		t.Fatal(err)
	}
	if out := sh.succeeds(t, "kubectl realmkeeper revoke apiclient/leaked -n "+team+" --secret --wait"); !strings.Contains(out, "contains a new secret.") {
		t.Errorf("revoke prints %s", out)
	}
	for _, s := range inst.Servers() {
		if a, err := install.RequestToken(t, s, s.Client(t), old); err != nil || a.AccessToken != "" {
			t.Errorf("%s accepted the old secret: %v", s.Name, err)
		}
	}
	replaced := inst.CredentialsSecret(t, c)
	if bytes.Equal(replaced.Data["client_secret"], old.Data["client_secret"]) {
		t.Error("The Secret contains the old client secret")
	}
	if replaced.Annotations["reloader.stakater.com/match"] != "true" || replaced.Labels["backup"] != "yes" || string(replaced.Data["own"]) != "kept" {
		t.Errorf("The Secret has lost what others have added: %+v", replaced.ObjectMeta)
	}
	scenario.AwaitUsable(t, inst, c)
}

func testRotate(t *testing.T, inst *install.Installation, sh *shell) {
	c := usable(t, inst, "rotation")
	old := inst.CredentialsSecret(t, c)
	plugin.Golden(t, "rotate.golden", sh.succeeds(t, "kubectl realmkeeper rotate apiclient/rotation -n "+team))
	current := inst.CredentialsSecret(t, c)
	if bytes.Equal(current.Data["client_secret"], old.Data["client_secret"]) {
		t.Error("The Secret contains the old client secret")
	}
	inst.AwaitTokens(t, current, true)
	inst.AwaitTokens(t, old, true)
	sh.fails(t, "kubectl realmkeeper rotate apiclient/rotation -n "+team, "previous rotation", "--wait=false", "revoke apiclient/rotation")
	sh.succeeds(t, "kubectl realmkeeper rotate apiclient/rotation --wait=false -n "+team)
}

func testRotateRealm(t *testing.T, inst *install.Installation, sh *shell) {
	realm := install.Realm("rotation")
	inst.Create(t, realm)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	plugin.Golden(t, "rotate-realm.golden", sh.succeeds(t, "kubectl realmkeeper rotate realm/rotation"))
	if err := inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(realm), realm); err != nil {
		t.Fatal(err)
	}
	if len(realm.Status.SigningKeys) != 2 {
		t.Errorf("Signing keys are %+v, want an old and a new one", realm.Status.SigningKeys)
	}
	sh.fails(t, "kubectl realmkeeper rotate realm/rotation", "does not sign yet")
}
