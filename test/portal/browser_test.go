package portal_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/realmkeeper/realmkeeper/test/framework/chromium"
)

// browser is a browser tab with its own cookies.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string // of the portal
	// sources are the HTML sources of all visited pages.
	sources []string
}

// startBrowser starts Chromium and stops it when the test ends.
func startBrowser(t *testing.T, url string) *browser {
	t.Helper()
	return &browser{t: t, ctx: chromium.Start(t), url: url}
}

// tab returns a new tab for a test.
func (b *browser) tab(t *testing.T) *browser {
	t.Helper()
	return &browser{t: t, ctx: chromium.Tab(b.ctx, t, chromedp.WithNewBrowserContext()), url: b.url}
}

// run runs an action in the browser and returns its result. It fails the test on an error.
func run[T any](b *browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	return chromium.Run(b.ctx, b.t, what, action)
}

// navigate runs an action that loads a new page and waits for the page.
func (b *browser) navigate(what string, action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, chromium.Timeout)
	defer stop()
	if _, err := chromedp.RunResponse(ctx, action); err != nil {
		b.t.Fatalf("%s: %v\nPage %s shows:\n%s", what, err, b.path(), b.text())
	}
	b.sources = append(b.sources, b.source())
}

// open opens a page of the portal.
func (b *browser) open(path string) {
	b.t.Helper()
	run(b, "Opening "+path, chromedp.Navigate(b.url+path))
	b.sources = append(b.sources, b.source())
}

// press clicks the button or link with the given text and waits for the next page.
func (b *browser) press(text string) {
	b.t.Helper()
	b.navigate("Clicking "+text, chromedp.Click(labeled(text), chromedp.NodeEnabled))
}

// openDialog presses a button that opens a dialog.
func (b *browser) openDialog(text string) {
	b.t.Helper()
	run(b, "Opening "+text, chromedp.Click(labeled(text), chromedp.NodeVisible))
	b.waitFor("[popover]:popover-open")
}

// closeDialog closes the open dialog.
func (b *browser) closeDialog() {
	b.t.Helper()
	b.click("[popover]:popover-open button[popovertargetaction=hide]")
}

// confirm confirms the open dialog and waits for the next page.
func (b *browser) confirm() {
	b.t.Helper()
	b.navigate("Confirming", chromedp.Click("[popover]:popover-open .choices button:not([popovertarget])", chromedp.NodeVisible))
}

// act opens the dialog of an action and confirms it.
func (b *browser) act(action string) {
	b.t.Helper()
	b.openDialog(action)
	b.confirm()
}

// actWith is act with text in a field of the dialog.
func (b *browser) actWith(action, field, text string) {
	b.t.Helper()
	b.openDialog(action)
	b.fill(field, text)
	b.confirm()
}

// labeled returns a selector for the button or link with the given text.
func labeled(text string) string {
	return fmt.Sprintf(`//*[self::button or self::a][normalize-space(.)=%q]`, text)
}

// click clicks the element that matches the selector.
func (b *browser) click(selector string) {
	b.t.Helper()
	run(b, "Clicking "+selector, chromedp.Click(selector))
}

// fill replaces the value of a field.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	run(b, "Filling "+selector, chromedp.SetValue(selector, text))
}

// read returns the text of the element that matches the selector.
func (b *browser) read(selector string) string {
	b.t.Helper()
	return strings.TrimSpace(run(b, "Reading "+selector, chromedp.TextContent(selector)))
}

// waitFor waits for a visible element that matches the selector.
func (b *browser) waitFor(selector string) {
	b.t.Helper()
	run(b, "Waiting for "+selector, chromedp.WaitVisible(selector))
}

// text returns the visible text of the page.
func (b *browser) text() string { return evaluate[string](b, "document.body.innerText") }

// path returns the URL of the page without the portal's URL.
func (b *browser) path() string {
	b.t.Helper()
	return strings.TrimPrefix(run(b, "Reading the URL", chromedp.Location()), b.url)
}

// wantText fails the test unless the page shows the given text.
func (b *browser) wantText(text string) {
	b.t.Helper()
	if got := b.text(); !strings.Contains(got, text) {
		b.t.Fatalf("Page %s doesn't show %q:\n%s", b.path(), text, got)
	}
}

// source returns the current HTML of the page.
func (b *browser) source() string {
	b.t.Helper()
	return run(b, "Reading the page", chromedp.OuterHTML("html"))
}

// evaluate runs a script and returns its result. The script may return a promise.
func evaluate[T any](b *browser, script string) T {
	b.t.Helper()
	return run(b, "Running a script", chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// cookies returns all cookies as name=value.
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

// signIn signs in with a Kubernetes token.
func (b *browser) signIn(token string) {
	b.t.Helper()
	b.open("/sign-in")
	b.fill("#token", token)
	b.press("Sign in")
}

// wantNoText fails the test if the page shows the given text.
func (b *browser) wantNoText(text string) {
	b.t.Helper()
	if got := b.text(); strings.Contains(got, text) {
		b.t.Fatalf("Page %s shows %q:\n%s", b.path(), text, got)
	}
}

// post sends a form from a script on the page and returns the status of the response.
func (b *browser) post(path string, form url.Values) int {
	b.t.Helper()
	return evaluate[int](b, fmt.Sprintf(`fetch(%q, {method: "POST", redirect: "manual", body: new URLSearchParams(%q)}).then(r => r.status)`, path, form.Encode()))
}
