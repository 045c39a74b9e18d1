package portal_test

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// patience bounds what a browser does. It is no promise of speed.
const patience = 30 * time.Second

// browser is a tab of a browser that shares nothing with any other.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string // of the portal
	// seen are the sources of all pages that there were.
	seen []string
}

// startBrowser starts Debian's chromium, and shuts it down when the test ends.
func startBrowser(t *testing.T, url string) *browser {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatalf("The tests of the portal need chromium; test/portal/chromium.sh installs it: %v", err)
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath("chromium"), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true), chromedp.IgnoreCertErrors,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience), chromedp.WindowSize(1280, 900),
	)
	t.Cleanup(stop)
	return newTab(t, url, allocator)
}

// tab returns another tab for a test, with cookies of its own.
func (b *browser) tab(t *testing.T) *browser {
	t.Helper()
	return newTab(t, b.url, b.ctx, chromedp.WithNewBrowserContext())
}

func newTab(t *testing.T, url string, parent context.Context, options ...chromedp.ContextOption) *browser { //nolint:revive // t comes first
	t.Helper()
	ctx, stop := chromedp.NewContext(parent, options...)
	t.Cleanup(stop)
	// The first context of a browser is the one that it lives by, so this has no deadline.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Starting the browser: %v", err)
	}
	return &browser{t: t, ctx: ctx, url: url}
}

// run does something in the browser and returns its result, or fails the test.
func run[T any](b *browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	result, err := try(b, action)
	if err != nil {
		at, _ := try(b, chromedp.Location())
		text, _ := try(b, chromedp.Evaluate[string]("document.body.innerText"))
		b.t.Fatalf("%s: %v\nThe browser is at %s and shows:\n%s", what, err, at, text)
	}
	return result
}

func try[T any](b *browser, action chromedp.Action[T]) (T, error) {
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	return chromedp.Run(ctx, action)
}

// leading does what leads to another page, and waits for that.
func (b *browser) leading(what string, action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	if _, err := chromedp.RunResponse(ctx, action); err != nil {
		b.t.Fatalf("%s: %v\nThe browser is at %s and shows:\n%s", what, err, b.at(), b.text())
	}
	b.seen = append(b.seen, b.source())
}

// open shows a page of the portal.
func (b *browser) open(path string) {
	b.t.Helper()
	run(b, "Opening "+path, chromedp.Navigate(b.url+path))
	b.seen = append(b.seen, b.source())
}

// press clicks on the button or link of that text and waits for the page that it leads to.
func (b *browser) press(text string) {
	b.t.Helper()
	b.leading("Pressing "+text, chromedp.Click(labelled(text), chromedp.NodeEnabled))
}

// labelled selects the button or link of that text.
func labelled(text string) string {
	return fmt.Sprintf(`//*[self::button or self::a][normalize-space(.)=%q]`, text)
}

// click clicks on what a selector finds.
func (b *browser) click(selector string) {
	b.t.Helper()
	run(b, "Clicking on "+selector, chromedp.Click(selector))
}

// fill types into a field, in the place of what stands there.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	run(b, "Filling "+selector, chromedp.SetValue(selector, text))
}

// read returns the text of what a selector finds.
func (b *browser) read(selector string) string {
	b.t.Helper()
	return strings.TrimSpace(run(b, "Reading "+selector, chromedp.TextContent(selector)))
}

// awaits waits until a selector finds something visible.
func (b *browser) awaits(selector string) {
	b.t.Helper()
	run(b, "Waiting for "+selector, chromedp.WaitVisible(selector))
}

// text is what the page shows.
func (b *browser) text() string { return evaluate[string](b, "document.body.innerText") }

// at is the address of the page, without the portal's.
func (b *browser) at() string {
	b.t.Helper()
	return strings.TrimPrefix(run(b, "Reading the address", chromedp.Location()), b.url)
}

// wants fails the test unless the page shows a text.
func (b *browser) wants(text string) {
	b.t.Helper()
	if got := b.text(); !strings.Contains(got, text) {
		b.t.Fatalf("The page %s doesn't show %q:\n%s", b.at(), text, got)
	}
}

// source returns the HTML of the page as it is now.
func (b *browser) source() string {
	b.t.Helper()
	return run(b, "Reading the page", chromedp.OuterHTML("html"))
}

// evaluate runs a script, which may return a promise, and returns its result.
func evaluate[T any](b *browser, script string) T {
	b.t.Helper()
	return run(b, "Running a script", chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// cookies returns all that the portal has set, as they are.
func (b *browser) cookies() (values []string) {
	b.t.Helper()
	found := run(b, "Reading the cookies", chromedp.Action[network.GetCookiesResult](func(ctx context.Context, t *chromedp.Target) (network.GetCookiesResult, error) {
		return cdp.Call(ctx, t, network.GetCookies, network.GetCookiesParams{})
	}))
	for _, c := range found.Cookies {
		values = append(values, c.Name+"="+c.Value)
	}
	return values
}

// signIn signs in with a token of Kubernetes.
func (b *browser) signIn(token string) {
	b.t.Helper()
	b.open("/sign-in")
	b.fill("#token", token)
	b.press("Sign in")
}

// lacks fails the test if the page shows a text.
func (b *browser) lacks(text string) {
	b.t.Helper()
	if got := b.text(); strings.Contains(got, text) {
		b.t.Fatalf("The page %s shows %q:\n%s", b.at(), text, got)
	}
}

// post sends a form as a script of the portal's page could, and returns the status of the answer.
func (b *browser) post(path string, form url.Values) int {
	b.t.Helper()
	return evaluate[int](b, fmt.Sprintf(`fetch(%q, {method: "POST", redirect: "manual", body: new URLSearchParams(%q)}).then(a => a.status)`, path, form.Encode()))
}
