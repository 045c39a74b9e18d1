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

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	apply "github.com/realmkeeper/realmkeeper/api/v1alpha1/applyconfiguration/api/v1alpha1"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// What people type is shown as it is, and does nothing.
func hostileNames(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	hostile := `<script>window.hacked=1</script><img src=x onerror="window.hacked=1">` + "\u202e\u2066gpj.exe" + strings.Repeat("W", 150)
	long := strings.Repeat("long", 55)
	i.Create(t, testinstall.ApiClient(team, long, "acme", func(c *v1alpha1.ApiClient) { c.Spec.Description = hostile }))
	b.signIn(i.admin)
	run(b, "Holding a phone", chromedp.EmulateViewport(360, 740))
	for _, path := range []string{
		"/clients?namespace=" + team, "/clients/" + team + "/" + long, "/clients?search=" + url.QueryEscape(hostile),
		"/clients?namespace=" + url.QueryEscape(hostile), "/clients/new?realm=" + url.QueryEscape(hostile),
		"/clients/" + url.PathEscape(hostile) + "/" + url.PathEscape(hostile), "/realms/" + url.PathEscape(hostile),
	} {
		b.open(path)
		if evaluate[bool](b, "'hacked' in window") {
			t.Errorf("%s runs what somebody typed", path)
		}
		if beyond := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); beyond > 0 {
			t.Errorf("%s is %d pixels too wide for a phone", path, beyond)
		}
	}
	b.open("/clients/" + team + "/" + long)
	b.wants(hostile[:28])
	b.open("/clients/new?realm=acme&namespace=" + team)
	b.fill("#name", `"><script>window.hacked=1</script>`)
	b.press("Create the client")
	if evaluate[bool](b, "'hacked' in window") {
		t.Error("The form runs what somebody typed")
	}
	b.wants("metadata.name")
}

// Of two people who change a client at once the second is told, and the change of the first stays.
func concurrentEdits(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	billing := testinstall.ApiClient(team, "billing", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = hashed(t, "a") })
	i.Create(t, billing)
	i.AwaitReady(t, billing, metav1.ConditionTrue, v1alpha1.ReasonReady)
	first, second := b, b.tab(t)
	for _, tab := range []*browser{first, second} {
		tab.signIn(i.admin)
		tab.open("/clients/" + team + "/billing")
	}
	first.press("Suspend")
	second.fill("#expires", "2031-01-01T00:00")
	second.press("Set the end")
	second.wants("Somebody was faster")
	i.get(t, billing)
	if !billing.Spec.Suspend || billing.Spec.ExpiresAt != nil {
		t.Errorf("The first suspended it, and the second was refused, but now it is %+v", billing.Spec)
	}
	second.press("Go on")
	second.fill("#expires", "2031-01-01T00:00")
	second.press("Set the end")
	i.get(t, billing)
	if !billing.Spec.Suspend || billing.Spec.ExpiresAt == nil {
		t.Errorf("Both have changed it, but now it is %+v", billing.Spec)
	}

	// A name that somebody has taken is told, and theirs stays.
	second.open("/clients/new?realm=acme&namespace=" + team)
	second.fill("#name", "billing")
	second.press("Create the client")
	second.wants("There is a client of this name")

	// One that was deleted and made again is another.
	first.open("/clients/" + team + "/billing")
	i.Delete(t, billing)
	again := testinstall.ApiClient(team, "billing", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = hashed(t, "b") })
	i.Create(t, again)
	first.fill("#confirm", "billing")
	first.press("Delete the client")
	first.wants("Somebody was faster")
	i.get(t, again)
}

// What Argo CD, Flux and Helm would set back can't be changed, and what they wouldn't can.
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
		{apply.ApiClient("argo", team).WithAnnotations(map[string]string{"argocd.argoproj.io/tracking-id": "tenants:auth.realmkeeper.dev/ApiClient:x/argo"}), "argocd-controller"},
		{apply.ApiClient("helm", team).WithLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"}).WithAnnotations(map[string]string{"meta.helm.sh/release-name": "tenants"}), "helm"},
		{apply.ApiClient("renamed", team).WithLabels(map[string]string{"argocd.argoproj.io/instance": "tenants"}), "our-argo"},
	} {
		if err := i.Env.Client.Apply(t.Context(), c.object.WithSpec(source()), client.FieldOwner(c.owner)); err != nil {
			t.Fatal(err)
		}
	}
	b.signIn(i.admin)
	for name, want := range map[string]string{
		"flux": "Flux (Kustomization flux-system/tenants)", "argo": "Argo CD (application tenants)",
		"helm": "Helm (release tenants)", "renamed": "Argo CD (application tenants)",
	} {
		live := testinstall.ApiClient(team, name, "acme")
		i.get(t, live)
		path := "/clients/" + team + "/" + name
		b.open(path)
		b.wants("This client is managed by " + want)
		b.wants("sets spec.suspend, and would set it back")
		disabled := evaluate[[]string](b, `[...document.querySelectorAll(".actions button:disabled")].map(b => b.textContent)`)
		if want := []string{"Suspend", "Rotate", "Delete the client"}; !slices.Equal(disabled, want) {
			t.Errorf("Of %s these can't be done: %q, want %q", name, disabled, want)
		}
		for action, form := range map[string]url.Values{"suspend": {}, "rotate": {"overlap": {"1h"}}, "end-secret": {"id": {"a"}}, "delete": {"confirm": {name}}} {
			form.Set("uid", string(live.UID))
			form.Set("generation", strconv.FormatInt(live.Generation, 10))
			if status := b.post(path+"/"+action, form); status != http.StatusConflict {
				t.Errorf("POST %s of %s is answered with %d, want 409", action, name, status)
			}
		}
		b.fill("#expires", "2031-01-01T00:00") // which Git doesn't say
		b.press("Set the end")
		i.get(t, live)
		if live.Spec.ExpiresAt == nil || live.Spec.Suspend {
			t.Errorf("%s is %+v", name, live.Spec)
		}
	}
}

// A generated secret is rotated by the operator, and a provided one where it is.
func otherSecrets(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	generated, provided := testinstall.ApiClient(team, "generated", "acme"), testinstall.ApiClient(team, "provided", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Provided: &v1alpha1.ProvidedSecret{SecretRef: v1alpha1.SecretKeyReference{Name: "vault"}}}
	})
	signing := testinstall.ApiClient(team, "signing", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.PublicKeys = []v1alpha1.PublicKey{{
			KeyID: "2026-03", KeyType: "OKP", Algorithm: v1alpha1.SigningAlgorithmEdDSA, Curve: "Ed25519",
			X: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", // RFC 8037, appendix A.2
		}}
	})
	elsewhere := testinstall.ApiClient(team, "elsewhere", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = hashed(t, "a") })
	i.Create(t, generated, provided, signing, elsewhere)
	i.AwaitReady(t, generated, metav1.ConditionTrue, v1alpha1.ReasonReady)
	before := i.ConsumerSecret(t, generated)
	b.signIn(i.admin)
	b.open("/clients/" + team + "/generated")
	b.wants("keeps it in the Secret generated of namespace " + team)
	// A secret of this very second would stay.
	testinstall.Eventually(t, "the next second", func() error {
		if now := metav1.Now(); now.Unix() <= generated.Status.Secrets[0].CreatedAt.Unix() {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	b.press("Rotate")
	testinstall.Eventually(t, "another secret", func() error {
		after := &corev1.Secret{}
		if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(before), after); err != nil {
			return err
		}
		if bytes.Equal(after.Data[v1alpha1.SecretKeyClientSecret], before.Data[v1alpha1.SecretKeyClientSecret]) {
			return fmt.Errorf("it is still the old one")
		}
		return nil
	})
	testinstall.Eventually(t, "the Event of the rotation on the page", func() error {
		b.open("/clients/" + team + "/generated")
		if text := b.text(); !strings.Contains(text, string(v1alpha1.EventSecretRotated)) {
			return errors.New(text)
		}
		return nil
	})
	if strings.Contains(strings.Join(b.seen, ""), string(before.Data[v1alpha1.SecretKeyClientSecret])) {
		t.Error("The portal shows a secret that it doesn't have to read")
	}
	b.open("/clients/" + team + "/provided")
	b.wants("in the Secret vault, under the key client_secret")
	b.wants("it changes with the Secret that it is in")
	b.open("/clients/" + team + "/elsewhere")
	b.press("Rotate")
	i.wantTokens(t, team, "elsewhere", b.secret(), true)
	i.wantTokens(t, team, "elsewhere", "made elsewhere", true)
	b.open("/clients/" + team + "/signing")
	b.wants("The client has none: it authenticates by what it signs")
	b.wants("2026-03")
}

// A list of many goes on from page to page, with each client once, also where some are passed over.
func pagedLists(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	const clients = 55
	for k := range clients {
		i.Create(t, testinstall.ApiClient(team, fmt.Sprintf("client-%02d", k), "acme"))
	}
	// The API server filters by realm.
	others := &v1alpha1.ApiClientList{}
	if err := i.Env.Client.List(t.Context(), others, client.InNamespace(team), client.MatchingFields{"spec.realmRef.name": "other"}); err != nil || len(others.Items) > 0 {
		t.Errorf("Of another realm there are %d clients (%v)", len(others.Items), err)
	}
	b.signIn(i.admin)
	for query, want := range map[string]int{"": clients, "&realm=acme": clients, "&realm=other": 0, "&search=CLIENT-": clients, "&realm=acme&search=-01": 1} {
		b.open("/clients?namespace=" + team + query)
		var names []string
		for {
			names = append(names, evaluate[[]string](b, `[...document.querySelectorAll("tbody a")].map(a => a.textContent)`)...)
			if !evaluate[bool](b, `!!document.querySelector("a[rel=next]")`) {
				break
			}
			b.press("Next page")
		}
		slices.Sort(names)
		if got := len(slices.Compact(slices.Clone(names))); got != want || len(names) != want {
			t.Errorf("With %q there are %d clients in %d rows, want %d once each", query, got, len(names), want)
		}
	}
	// With scripts the list follows while one types.
	b.open("/clients?namespace=" + team)
	run(b, "Typing", chromedp.SendKeys("#search", "client-1"))
	testinstall.Eventually(t, "the list to follow", func() error {
		if rows := evaluate[int](b, `document.querySelectorAll("tbody tr").length`); rows != 10 {
			return fmt.Errorf("it has %d rows", rows)
		}
		return nil
	})
}
