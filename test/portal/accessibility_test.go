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

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	apply "github.com/realmkeeper/realmkeeper/api/v1beta1/applyconfiguration/api/v1beta1"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

var screenshots = flag.String("screenshots", "", "`Directory` for screenshots of all pages; docs/portal has those that docs/portal.md shows")

// axe is a script that finds violations of the Web Content Accessibility Guidelines (WCAG).
//
//go:embed testdata/axe/axe-4.14.1.min.js
var axe string

// device is a screen size.
type device struct {
	name          string
	width, height int64
}

var devices = []device{{"desktop", 1280, 800}, {"phone", 390, 844}}

// everyPage checks that each page conforms to WCAG 2.1 AA, in light mode on a desktop and in dark
// mode on a phone, and that it isn't too wide at 200% zoom. With -screenshots it checks both modes
// on both devices and writes screenshots.
func everyPage(t *testing.T, i *instance, b *browser) {
	const team = "acme-apps" // name shown in the screenshots
	i.Create(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}},
		install.ApiClient(team, "billing", "acme", func(c *v1beta1.ApiClient) {
			c.Spec.Description, c.Spec.Scopes = "Sends invoices. Owned by the billing team.", []string{"orders.read"}
		}),
		install.ApiClient(team, "reports", "acme", func(c *v1beta1.ApiClient) { c.Spec.Suspend = true }),
		install.ApiClient(team, "trial", "nowhere"),
	)
	shop := apply.ApiClient("shop", team).
		WithLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "tenants", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}).
		WithSpec(apply.ApiClientSpec().WithRealmRef(apply.RealmReference().WithName("acme")).WithSuspend(false).
			WithSecret(apply.ClientSecretSource().WithGenerated(apply.GeneratedSecret())))
	if err := i.Env.Client.Apply(t.Context(), shop, client.FieldOwner("kustomize-controller")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"billing", "shop"} {
		i.AwaitReady(t, install.ApiClient(team, name, "acme"), metav1.ConditionTrue, v1beta1.ReasonReady)
	}
	i.AwaitReady(t, install.ApiClient(team, "trial", "nowhere"), metav1.ConditionFalse, v1beta1.ReasonRealmNotFound)

	b.open("/sign-in")
	b.inspect("sign-in")
	b.signIn(i.viewer)
	b.open("/clients/" + team + "/billing")
	b.inspect("viewer")
	b.open("/sign-in")
	b.signIn(i.admin)
	for _, page := range []struct{ name, path string }{
		{"no-clients", "/clients?search=nothing-like-it"},
		{"realms", "/realms"},
		{"choose-realm", "/clients/new"},
		{"create", "/clients/new?realm=acme&namespace=" + team},
		{"missing", "/clients/a/b"},
		{"managed", "/clients/" + team + "/shop"},
		{"not-ready", "/clients/" + team + "/trial"},
	} {
		b.open(page.path)
		b.inspect(page.name)
	}
	b.open("/clients/new?realm=acme&namespace=" + team)
	b.fill("#name", "orders")
	b.fill("#description", "Order service for the shop")
	b.click(`input[value="orders.read"]`)
	b.press("Create client")
	b.inspect("secret")
	b.press("Done")
	b.waitFor("#state .badge.good")
	b.act("Rotate")
	b.press("Done")
	b.waitFor("#state .badge.good")
	restore := withHistory(t, i, install.ApiClient(team, "orders", "acme"))
	defer restore()
	b.open("/realms/acme")
	b.inspect("realm")
	b.open("/clients/" + team + "/orders")
	if n := evaluate[int](b, `document.querySelectorAll("td[data-label='Last used'] time[title]").length`); n != 2 {
		t.Errorf("Page shows the last use of %d secrets, want 2", n)
	}
	b.inspect("client")
	b.openDialog("Delete")
	b.inspect("delete")
}

// inspect checks the current page on each device and in each color scheme. Without a name, there
// are no screenshots.
func (b *browser) inspect(name string) {
	b.t.Helper()
	for k, scheme := range []string{"light", "dark"} {
		for l, d := range devices {
			if k != l && *screenshots == "" {
				continue // Colors rarely depend on the width, so testing two combinations is sufficient.
			}
			b.show(scheme, d)
			for _, v := range b.violations() {
				b.t.Errorf("Page %s (%s, %s): %s", name, d.name, scheme, v)
			}
			if *screenshots != "" && name != "" {
				b.screenshot(fmt.Sprintf("%s-%s-%s", name, d.name, scheme))
			}
		}
	}
	// At 200% zoom, a window of 1280 pixels shows 640 CSS pixels.
	b.show("light", device{"zoomed desktop", 640, 400})
	if overflow := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); overflow > 0 {
		b.t.Errorf("Page %s is %d pixels too wide at 200%% zoom", name, overflow)
	}
	b.show("light", devices[0])
}

// show sets the color scheme and the viewport.
func (b *browser) show(scheme string, d device) {
	b.t.Helper()
	run(b, "Setting the viewport of the "+d.name, chromedp.EmulateViewport(d.width, d.height))
	run(b, "Setting the color scheme "+scheme, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
}

// violations returns the violations that axe finds, one per line.
func (b *browser) violations() []string {
	b.t.Helper()
	if !evaluate[bool](b, "'axe' in window") {
		run(b, "Loading axe", chromedp.Evaluate[chromedp.Void](axe))
	}
	return evaluate[[]string](b, `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(found => {
		if (found.passes.length === 0) { return ["axe checked nothing"]; }
		return found.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.failureSummary.replaceAll("\n", " ") + " at " + n.html));
	})`)
}

// maskSecrets is a script that masks secrets on the page, so that no secret is visible in the docs.
const maskSecrets = `{
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		texts.currentNode.data = texts.currentNode.data.replace(/rk_[0-9A-Za-z]{49}/g, "rk_" + "x".repeat(49));
	}
}`

// screenshot writes a screenshot for the docs.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	run(b, "Masking secrets", chromedp.Evaluate[chromedp.Void](maskSecrets))
	shoot := chromedp.FullScreenshot(100)
	if evaluate[bool](b, `!!document.querySelector("[popover]:popover-open")`) {
		shoot = chromedp.CaptureScreenshot() // the backdrop of a dialog covers only the viewport
	}
	shot := run(b, "Taking a screenshot", shoot)
	path := filepath.Join(*screenshots, strings.ToLower(name)+".png")
	if err := os.WriteFile(path, shot, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
