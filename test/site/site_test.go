// Package site_test opens the documentation site, which make docs builds, in a browser.
package site_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/realmkeeper/realmkeeper/test/framework/chromium"
)

const directory = "../../dist/docs"

var screenshots = flag.String("screenshots", "", "`Directory` for screenshots of some pages")

// TestSite tests the site as visitors see it. Browsers load everything from the site itself, and
// no page logs an error.
func TestSite(t *testing.T) {
	if _, err := os.Stat(filepath.Join(directory, "index.html")); err != nil {
		t.Fatalf("The site is not built; run make docs: %v", err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(directory)))
	t.Cleanup(server.Close)
	b := &browser{t: t, ctx: chromium.Start(t), url: server.URL}
	b.recordProblems()

	for name, test := range map[string]func(*browser){
		"search finds reasons in tables and headings": search,
		"landing page fits on one screen":             landing,
		"pages fit on a phone":                        phone,
		"landing page is accessible":                  accessibility,
	} {
		t.Run(name, func(t *testing.T) { test(&browser{t: t, ctx: b.ctx, url: b.url}) })
	}
	if len(b.problems) > 0 {
		t.Errorf("The browser reported:\n%s", strings.Join(b.problems, "\n"))
	}
}

// TestRecording tests that the recording on the landing page shows a token request and a suspension, but
// no token, secret, or path of the machine that recorded it.
func TestRecording(t *testing.T) {
	content, err := os.ReadFile("../../hack/site/demo.cast")
	if err != nil {
		t.Fatal(err)
	}
	header, events, _ := strings.Cut(string(content), "\n")
	var output strings.Builder
	output.WriteString(header + "\n")
	for line := range strings.Lines(events) {
		var event []any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		output.WriteString(event[2].(string))
	}
	for _, want := range []string{"make serve", `"access_token":"eyJhbGci..."`, "suspend: true", `"error":"invalid_client"`} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("The recording doesn't show %s", want)
		}
	}
	shown := regexp.MustCompile(`/tmp/realmkeeper-\d+/`).ReplaceAllString(output.String(), "")
	forbidden := regexp.MustCompile(`eyJ[A-Za-z0-9_-]{20,}|rk_[A-Za-z0-9]{30,}|/(work|root|home|tmp|usr|var)/`)
	if found := forbidden.FindAllString(shown, -1); found != nil {
		t.Errorf("The recording contains %q", found)
	}
}

func search(b *browser) {
	const word = "ClientIDConflict"
	for _, page := range []string{"/reasons.html", "/api-reference.html"} {
		b.open("/")
		b.show(desktop, "light")
		b.run("Opening the search", chromedp.Click(".VPNavBarSearch button"))
		b.run("Searching", chromedp.SendKeys("#localsearch-input", word))
		result := `.results a[href^="` + page + `"]`
		b.run("Waiting for the result "+page, chromedp.WaitVisible(result))
		b.screenshot("search")
		b.run("Opening the result "+page, chromedp.Click(result))
		b.run("Waiting for "+page, chromedp.Poll[chromedp.Void](`location.pathname === "`+page+`" && document.querySelector(".vp-doc")?.innerText.includes("`+word+`")`))
	}
}

func landing(b *browser) {
	b.open("/")
	b.show(desktop, "light")
	b.run("Waiting for the recording", chromedp.WaitVisible(".ap-player"))
	b.screenshot("landing-desktop-light")
	if end := evaluate[float64](b, `Math.max(...[...document.querySelectorAll("main > *")].map(part => part.getBoundingClientRect().bottom))`); end > float64(desktop.height) {
		b.t.Errorf("The landing page ends at %.0f pixels, want at most %d", end, desktop.height)
	}
}

func phone(b *browser) {
	b.show(handset, "light")
	for _, page := range pages(b.t) {
		b.open(page)
		if overflow := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); overflow > 0 {
			b.t.Errorf("%s is %d pixels too wide", page, overflow)
		}
		if slices.Contains([]string{"/index.html", "/api-reference.html", "/operations/index.html", "/guides/github-actions.html"}, page) {
			b.screenshot(strings.ReplaceAll(page[1:], "/", "-") + "-phone-light")
		}
	}
}

// accessibility tests that the landing page conforms to WCAG 2.1 AA.
func accessibility(b *browser) {
	axe, err := os.ReadFile("../portal/testdata/axe/axe-4.14.1.min.js")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, d := range []device{desktop, handset} {
			b.show(d, scheme)
			b.open("/")
			b.run("Loading axe", chromedp.Evaluate[chromedp.Void](string(axe)))
			for _, violation := range evaluate[[]string](b, `axe.run("main", {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(found =>
				found.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.failureSummary + " at " + n.html)))`) {
				b.t.Errorf("%s, %s: %s", d.name, scheme, violation)
			}
			b.screenshot("landing-" + d.name + "-" + scheme)
		}
	}
}

// pages returns the paths of all pages of the site.
func pages(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".html" {
			paths = append(paths, strings.TrimPrefix(path, directory))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// browser is a browser tab.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string // of the site

	mutex    sync.Mutex
	problems []string
}

// recordProblems records all errors that pages log, and all requests to other hosts.
func (b *browser) recordProblems() {
	b.t.Helper()
	report := func(problem string) {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		b.problems = append(b.problems, problem)
	}
	err := chromedp.Listen(b.ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if url := e.Request.URL; !strings.HasPrefix(url, b.url+"/") && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") {
				report("request to " + url)
			}
		case *runtime.EventExceptionThrown:
			report("exception: " + e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				report(fmt.Sprintf("console: %s %s", e.Type, e.Args[0].Value))
			}
		case *log.EventEntryAdded:
			report(string(e.Entry.Level) + ": " + e.Entry.Text + " " + e.Entry.URL)
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.run("Recording requests and errors", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		return err
	}))
}

// device is a screen size.
type device struct {
	name          string
	width, height int64
}

var (
	desktop = device{"desktop", 1440, 900}
	handset = device{"phone", 390, 844}
)

// show sets the viewport and the preferred color scheme. Nothing moves.
func (b *browser) show(d device, scheme string) {
	b.t.Helper()
	b.run("Setting the viewport of the "+d.name, chromedp.EmulateViewport(d.width, d.height))
	b.run("Setting the color scheme "+scheme, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.run("Opening "+path, chromedp.Navigate(b.url+path))
}

func (b *browser) run(what string, action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	chromium.Run(b.ctx, b.t, what, action)
}

func evaluate[T any](b *browser, script string) T {
	b.t.Helper()
	return chromium.Run(b.ctx, b.t, "Running a script", chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// screenshot writes what the browser shows, if -screenshots is set.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	shot := chromium.Run(b.ctx, b.t, "Taking a screenshot", chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), shot, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
