// Package chromium starts Chromium for tests.
package chromium

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Timeout limits each action in the browser.
const Timeout = 30 * time.Second

// Start starts Chromium and stops it when the test ends. The context is that of a tab.
func Start(t *testing.T) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatalf("This test requires Chromium; run make chromium to install it: %v", err)
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath("chromium"), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true), chromedp.IgnoreCertErrors,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(Timeout), chromedp.WindowSize(1280, 900),
	)
	t.Cleanup(stop)
	return Tab(allocator, t)
}

// Tab opens a tab and closes it when the test ends.
func Tab(parent context.Context, t *testing.T, options ...chromedp.ContextOption) context.Context {
	t.Helper()
	ctx, stop := chromedp.NewContext(parent, options...)
	t.Cleanup(stop)
	// Chromium stops when its first context is done, so this context has no deadline.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Starting the browser: %v", err)
	}
	return ctx
}

// Try runs an action in a tab and returns its result.
func Try[T any](ctx context.Context, action chromedp.Action[T]) (T, error) {
	ctx, stop := context.WithTimeout(ctx, Timeout)
	defer stop()
	return chromedp.Run(ctx, action)
}

// Run is Try that fails the test on an error.
func Run[T any](ctx context.Context, t *testing.T, what string, action chromedp.Action[T]) T {
	t.Helper()
	result, err := Try(ctx, action)
	if err != nil {
		location, _ := Try(ctx, chromedp.Location())
		text, _ := Try(ctx, chromedp.Evaluate[string]("document.body.innerText"))
		t.Fatalf("%s: %v\nPage %s shows:\n%s", what, err, location, text)
	}
	return result
}
