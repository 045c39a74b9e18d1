package portal_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	apply "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration/api/v1beta1"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// maliciousInput tests that user input is shown as text and never interpreted.
func maliciousInput(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	malicious := `<script>window.hacked=1</script><img src=x onerror="window.hacked=1">` + "\u202e\u2066gpj.exe" + strings.Repeat("W", 150)
	long := strings.Repeat("long", 55)
	i.Create(t, install.ApiClient(team, long, "acme", func(c *v1beta1.ApiClient) { c.Spec.Description = malicious }))
	i.Create(t, install.Realm("malicious", func(r *v1beta1.Realm) {
		allowExchanges(r, team, "other")
		r.Spec.Exchanges[1].Subjects.Issuer.MatchClaims = append(r.Spec.Exchanges[1].Subjects.Issuer.MatchClaims, v1beta1.ClaimMatch{Name: "name", Value: malicious})
	}), install.ApiClient(team, "actor", "malicious"))
	b.signIn(i.admin)
	run(b, "Setting the viewport", chromedp.EmulateViewport(360, 740))
	for _, path := range []string{
		"/clients?namespace=" + team, "/clients/" + team + "/" + long, "/clients?search=" + url.QueryEscape(malicious),
		"/clients?namespace=" + url.QueryEscape(malicious), "/clients/new?realm=" + url.QueryEscape(malicious),
		"/clients/" + url.PathEscape(malicious) + "/" + url.PathEscape(malicious), "/realms/" + url.PathEscape(malicious),
		"/realms/malicious", "/clients/" + team + "/actor",
	} {
		b.open(path)
		if evaluate[bool](b, "'hacked' in window") {
			t.Errorf("%s executes user input", path)
		}
		if overflow := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); overflow > 0 {
			t.Errorf("%s is %d pixels too wide for a phone", path, overflow)
		}
	}
	for _, path := range []string{"/clients/" + team + "/" + long, "/clients/" + team + "/actor", "/realms/malicious"} {
		b.open(path)
		b.wantText(malicious[:28])
	}
	b.open("/clients/new?realm=acme&namespace=" + team)
	b.fill("#name", `"><script>window.hacked=1</script>`)
	b.press("Create client")
	if evaluate[bool](b, "'hacked' in window") {
		t.Error("Form executes user input")
	}
	b.wantText("RFC 1123")
}

// concurrentEdits tests that a change based on a stale page is rejected and doesn't overwrite the
// earlier change.
func concurrentEdits(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	billing := install.ApiClient(team, "billing", "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = hashed(t, "a") })
	i.Create(t, billing)
	i.AwaitReady(t, billing, metav1.ConditionTrue, v1beta1.ReasonReady)
	first, second := b, b.tab(t)
	for _, tab := range []*browser{first, second} {
		tab.signIn(i.admin)
		tab.open("/clients/" + team + "/billing")
	}
	first.act("Suspend")
	second.actWith("Expiration", "#expires", "2031-01-01T00:00")
	second.wantText("This client has changed")
	i.get(t, billing)
	if !billing.Spec.Suspend || billing.Spec.ExpirationTime != nil {
		t.Errorf("Spec after a stale change is %+v, want only the first change", billing.Spec)
	}
	second.press("Back to client")
	second.actWith("Expiration", "#expires", "2031-01-01T00:00")
	i.get(t, billing)
	if !billing.Spec.Suspend || billing.Spec.ExpirationTime == nil {
		t.Errorf("Spec is %+v, want both changes", billing.Spec)
	}

	// An existing client isn't overwritten.
	second.open("/clients/new?realm=acme&namespace=" + team)
	second.fill("#name", "billing")
	second.press("Create client")
	second.wantText("A client with this name already exists")

	// A client recreated with the same name is a different client.
	first.open("/clients/" + team + "/billing")
	i.Delete(t, billing)
	recreated := install.ApiClient(team, "billing", "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = hashed(t, "b") })
	i.Create(t, recreated)
	first.actWith("Delete", "#confirm", "billing")
	first.wantText("This client has changed")
	i.get(t, recreated)
}

// managedClients tests that fields set by Argo CD, Flux or Helm can't be changed, and that other
// fields can.
func managedClients(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	source := func() *apply.ApiClientSpecApplyConfiguration {
		return apply.ApiClientSpec().WithRealmRef(apply.RealmReference().WithName("acme")).WithSuspend(false).
			WithSecret(apply.ClientSecretSource().WithHashed(apply.HashedSecret().WithID("a").WithHash(hashed(t, "a").Hashed[0].Hash)))
	}
	for _, c := range []struct {
		object *apply.ApiClientApplyConfiguration
		owner  string
	}{
		{apply.ApiClient("flux", team).WithLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "tenants", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}), "kustomize-controller"},
		{apply.ApiClient("renamed", team).WithLabels(map[string]string{"argocd.argoproj.io/instance": "tenants"}), "our-argo"},
	} {
		if err := i.Env.Client.Apply(t.Context(), c.object.WithSpec(source()), client.FieldOwner(c.owner)); err != nil {
			t.Fatal(err)
		}
	}
	b.signIn(i.admin)
	for name, want := range map[string]string{
		"flux": "Flux (Kustomization flux-system/tenants)", "renamed": "Argo CD (application tenants)",
	} {
		live := install.ApiClient(team, name, "acme")
		i.get(t, live)
		path := "/clients/" + team + "/" + name
		b.open(path)
		b.wantText("This client is managed by " + want)
		b.openDialog("Suspend")
		b.wantText("sets spec.suspend and would revert the change")
		b.closeDialog()
		unavailable := evaluate[[]string](b, `[...document.querySelectorAll(".toolbar .unavailable")].map(b => b.textContent)`)
		if want := []string{"Rotate", "Suspend", "Delete"}; !slices.Equal(unavailable, want) {
			t.Errorf("Client %s: unavailable actions %q, want %q", name, unavailable, want)
		}
		for action, form := range map[string]url.Values{"suspend": {}, "rotate": {"overlap": {"1h"}}, "revoke-secret": {"id": {"a"}}, "delete": {"confirm": {name}}} {
			form.Set("uid", string(live.UID))
			form.Set("generation", strconv.FormatInt(live.Generation, 10))
			if status := b.post(path+"/"+action, form); status != http.StatusConflict {
				t.Errorf("POST %s of client %s: status %d, want 409", action, name, status)
			}
		}
		b.actWith("Expiration", "#expires", "2031-01-01T00:00") // not set by the tools
		i.get(t, live)
		if live.Spec.ExpirationTime == nil || live.Spec.Suspend {
			t.Errorf("Client %s: spec is %+v", name, live.Spec)
		}
	}
}

// otherSecretSources tests clients with a secret that the operator generated, and with one that was generated
// outside the portal.
func otherSecretSources(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	generated := install.ApiClient(team, "generated", "acme", func(c *v1beta1.ApiClient) {
		c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{Rotation: v1beta1.SecretRotation{
			ExpireWhenUnused: &v1beta1.ExpireWhenUnused{After: &v1beta1.Duration{Duration: 24 * time.Hour}, Max: &v1beta1.Duration{Duration: 720 * time.Hour}},
		}}}
	})
	elsewhere := install.ApiClient(team, "elsewhere", "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = hashed(t, "a") })
	i.Create(t, generated, elsewhere)
	i.AwaitReady(t, generated, metav1.ConditionTrue, v1beta1.ReasonReady)
	before := i.CredentialsSecret(t, generated)
	b.signIn(i.admin)
	b.open("/clients/" + team + "/generated")
	b.wantText("stores it in the Secret generated in namespace " + team)
	b.wantText("expires when it hasn't been used for 24h, and after 720h at the latest")
	// rotationRequestTime has a resolution of one second, so don't rotate in the second in which the secret
	// was created.
	install.Eventually(t, "next second", func() error {
		if now := metav1.Now(); now.Unix() <= generated.Status.Secrets()[0].CreationTime.Unix() {
			return fmt.Errorf("time is %s", now)
		}
		return nil
	})
	b.act("Rotate")
	install.Eventually(t, "new secret", func() error {
		after := &corev1.Secret{}
		if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(before), after); err != nil {
			return err
		}
		if bytes.Equal(after.Data[v1beta1.SecretKeyClientSecret], before.Data[v1beta1.SecretKeyClientSecret]) {
			return errors.New("secret is unchanged")
		}
		return nil
	})
	install.Eventually(t, "rotation event on the page", func() error {
		b.open("/clients/" + team + "/generated")
		if text := b.text(); !strings.Contains(text, string(v1beta1.EventSecretRotated)) || !strings.Contains(text, "in 30 days at the latest") {
			return errors.New(text)
		}
		return nil
	})
	if strings.Contains(strings.Join(b.sources, ""), string(before.Data[v1beta1.SecretKeyClientSecret])) {
		t.Error("Portal shows a generated secret")
	}
	b.open("/clients/" + team + "/elsewhere")
	b.act("Rotate")
	i.wantTokens(t, team, "elsewhere", b.secret(), true)
	i.wantTokens(t, team, "elsewhere", "generated elsewhere", true)
}

// grantedClient tests that the form for a new client offers only what the grants for its namespace
// allow, and shows the API server's errors next to the fields.
func grantedClient(t *testing.T, i *instance, b *browser) {
	team, other, third := i.Env.Namespace(t), i.Env.Namespace(t), i.Env.Namespace(t)
	every := v1beta1.GrantedAudiences{v1beta1.GrantAll}
	i.Create(t, install.Realm("granting", func(r *v1beta1.Realm) {
		r.Spec.Scopes = []string{"read", "write", "admin"}
		r.Spec.Grants = []v1beta1.Grant{
			{
				Name: "team", Namespaces: v1beta1.GrantedNamespaces{Names: []string{team}},
				Scopes: v1beta1.GrantedScopes{"read"}, Audiences: every, ClientIDs: []string{"payments"},
			},
			{
				Name: "labeled", Scopes: v1beta1.GrantedScopes{"write"}, Audiences: every, Namespaces: v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{
					MatchLabels: map[string]v1beta1.LabelValue{corev1.LabelMetadataName: v1beta1.LabelValue(team)},
				}},
			},
			{Name: "other", Namespaces: v1beta1.GrantedNamespaces{Names: []string{other}}, Scopes: v1beta1.GrantedScopes{"*"}, Audiences: every},
		}
	}))
	b.signIn(i.admin)
	for namespace, want := range map[string]string{team: "read write", other: "read write admin", third: ""} {
		b.open("/clients/new?realm=granting&namespace=" + namespace)
		got := evaluate[string](b, `Array.from(document.querySelectorAll("input[name=scope]"), (s) => s.value).join(" ")`)
		if got != want {
			t.Errorf("Scopes offered in namespace %s: %q, want %q", namespace, got, want)
		}
		if hasID := evaluate[bool](b, `document.querySelector("#clientID") !== null`); hasID != (namespace == team) {
			t.Errorf("Client ID offered in namespace %s: %t", namespace, hasID)
		}
	}
	b.open("/clients/new?realm=granting&namespace=" + third)
	b.wantText("No grant of this realm includes the namespace")

	b.open("/clients/new?realm=granting&namespace=" + team)
	b.fill("#name", "explicit")
	b.fill("#clientID", "pay ments")
	b.click(`input[value="read"]`)
	b.press("Create client")
	if got := b.read("#clientID-problem"); !strings.Contains(got, "printable ASCII characters except space") {
		t.Errorf("Problem of the client ID: %q", got)
	}
	b.fill("#clientID", "payments")
	b.press("Create client")
	b.secret()
	i.AwaitReady(t, install.ApiClient(team, "explicit", "granting"), metav1.ConditionTrue, v1beta1.ReasonReady)
	b.open("/clients/" + team + "/explicit")
	if got := b.read("#client-id"); got != "payments" {
		t.Errorf("Client ID %q, want payments", got)
	}

	b.open("/clients/new?realm=granting&namespace=" + team)
	b.fill("#name", "both")
	b.click(`input[value="read"]`)
	b.click(`input[value="write"]`)
	b.press("Create client")
	i.AwaitReady(t, install.ApiClient(team, "both", "granting"), metav1.ConditionFalse, v1beta1.ReasonNotGranted)
	b.open("/clients/" + team + "/both")
	b.wantText(`The nearest is grant "team", which lacks scope "write".`)
}
