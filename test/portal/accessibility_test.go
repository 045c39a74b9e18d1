package portal_test

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	apply "github.com/realmkeeper/realmkeeper/api/v1alpha1/applyconfiguration/api/v1alpha1"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

var screenshots = flag.Bool("screenshots", false, "write those of docs/portal anew")

// axe finds violations of the Web Content Accessibility Guidelines.
//
//go:embed testdata/axe/axe-4.14.1.min.js
var axe string

// A device is what somebody holds.
type device struct {
	name          string
	width, height int64
}

var devices = []device{{"desktop", 1280, 800}, {"phone", 390, 844}}

// Every page passes axe by WCAG 2.1 AA, light on a desk and dark on a phone, and at 200% zoom none is
// too wide. With -screenshots it is light and dark on both, and the screenshots of docs are taken.
func everyPage(t *testing.T, i *instance, b *browser) {
	const team = "acme-apps" // it is in the pictures
	i.Create(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}},
		testinstall.ApiClient(team, "billing", "acme", func(c *v1alpha1.ApiClient) {
			c.Spec.Description, c.Spec.Scopes = "Invoices, by the billing team", []string{"orders.read"}
		}),
		testinstall.ApiClient(team, "reports", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true }),
		testinstall.ApiClient(team, "trial", "nowhere"),
	)
	shop := apply.ApiClient("shop", team).
		WithLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "tenants", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}).
		WithSpec(apply.ApiClientSpec().WithRealmRef(apply.RealmReference().WithName("acme")).WithSuspend(false))
	if err := i.Env.Client.Apply(t.Context(), shop, client.FieldOwner("kustomize-controller")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"billing", "shop"} {
		i.AwaitReady(t, testinstall.ApiClient(team, name, "acme"), metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	i.AwaitReady(t, testinstall.ApiClient(team, "trial", "nowhere"), metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound)

	b.open("/sign-in")
	b.inspect("sign-in")
	b.signIn(i.viewer)
	b.open("/clients/" + team + "/billing")
	b.inspect("viewer")
	b.open("/sign-in")
	b.signIn(i.admin)
	for _, page := range []struct{ name, path string }{
		{"clients", "/clients?namespace=" + team},
		{"no-clients", "/clients?search=nothing-like-it"},
		{"realms", "/realms"},
		{"realm", "/realms/acme"},
		{"choose-realm", "/clients/new"},
		{"create", "/clients/new?realm=acme&namespace=" + team},
		{"missing", "/clients/a/b"},
		{"managed", "/clients/" + team + "/shop"},
	} {
		b.open(page.path)
		b.inspect(page.name)
	}
	b.open("/clients/new?realm=acme&namespace=" + team)
	b.fill("#name", "orders")
	b.fill("#description", "The shop's order service")
	b.click(`input[value="orders.read"]`)
	b.press("Create the client")
	b.inspect("secret")
	b.press("I have copied it")
	b.awaits("#state .badge.good")
	b.press("Rotate")
	b.press("I have copied it")
	b.awaits("#state .badge.good")
	b.inspect("client")
}

// inspect looks at the page as it is shown in each way.
func (b *browser) inspect(name string) {
	b.t.Helper()
	for k, scheme := range []string{"light", "dark"} {
		for l, d := range devices {
			if k != l && !*screenshots {
				continue // Colours and widths have little to do with each other.
			}
			b.show(scheme, d)
			for _, v := range b.violations() {
				b.t.Errorf("The page %s, %s on a %s: %s", name, scheme, d.name, v)
			}
			if *screenshots {
				b.photograph(fmt.Sprintf("%s-%s-%s", name, d.name, scheme))
			}
		}
	}
	// At 200% zoom a window of 1280 pixels has 640.
	b.show("light", device{"zoomed desktop", 640, 400})
	if beyond := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); beyond > 0 {
		b.t.Errorf("The page %s is %d pixels too wide at 200%% zoom", name, beyond)
	}
	b.show("light", devices[0])
}

func (b *browser) show(scheme string, d device) {
	b.t.Helper()
	run(b, "Holding a "+d.name, chromedp.EmulateViewport(d.width, d.height))
	run(b, "Turning "+scheme, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
}

// violations returns what axe finds, a line each.
func (b *browser) violations() []string {
	b.t.Helper()
	if !evaluate[bool](b, "'axe' in window") {
		run(b, "Loading axe", chromedp.Evaluate[chromedp.Void](axe))
	}
	return evaluate[[]string](b, `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(found => {
		if (found.passes.length === 0) { return ["axe has looked at nothing"]; }
		return found.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.failureSummary.replaceAll("\n", " ") + " at " + n.html));
	})`)
}

// veil covers the secret of the page, since not even one of an instance that is gone belongs in docs.
const veil = `{
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		texts.currentNode.data = texts.currentNode.data.replace(/rk_[0-9A-Za-z]{49}/g, "rk_" + "x".repeat(49));
	}
}`

// photograph writes a screenshot for docs, with few colours: it is a page, and not a picture.
func (b *browser) photograph(name string) {
	b.t.Helper()
	run(b, "Covering the secret", chromedp.Evaluate[chromedp.Void](veil))
	shot := run(b, "Taking a screenshot", chromedp.FullScreenshot(100))
	small, err := reduced(shot)
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "portal", strings.ToLower(name)+".png")
	if err := os.WriteFile(path, small, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
