//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/taredb/tare/internal/testwait"
)

// axeVersion is the version of the accessibility checker injected into the pages.
const axeVersion = "4.10.3"

// A browser is a headless Chromium, in which a test opens tabs.
type browser struct {
	ctx context.Context
	axe string // the checker's source
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("there is no Chromium: run e2e/run, which installs what is missing")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true),
		// Other hosts have no address: a page that requests them fails visibly.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &browser{ctx: ctx}
}

// checker returns axe-core, from its package.
func (b *browser) checker(t *testing.T) string {
	t.Helper()
	if b.axe == "" {
		dir := t.TempDir()
		mustRun(t, "", "npm", "install", "--prefix", dir, "--cache", dir+"/cache", "--silent", "--no-audit", "--no-fund", "axe-core@"+axeVersion)
		text, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
		must(t, err)
		b.axe = string(text)
	}
	return b.axe
}

// A tab is a browser tab that records errors in it.
type tab struct {
	ctx  context.Context
	base *url.URL // of the server under test

	mu      sync.Mutex
	wrong   []string // under mu
	expects []string // substrings of expected errors
}

// open opens a tab for the pages of a server. Errors in it fail the test.
func (b *browser) open(t *testing.T, base string) *tab {
	t.Helper()
	u, err := url.Parse(base)
	must(t, err)
	ctx, end := chromedp.NewContext(b.ctx)
	ctx, late := context.WithTimeout(ctx, 3*time.Minute)
	tb := &tab{ctx: ctx, base: u}
	chromedp.ListenTarget(ctx, tb.listen)
	t.Cleanup(func() {
		late()
		end()
		tb.mu.Lock()
		defer tb.mu.Unlock()
		for _, w := range tb.wrong {
			t.Error(w)
		}
	})
	tb.run(t, network.Enable(), cdplog.Enable(), runtime.Enable())
	return tb
}

func (tb *tab) fault(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	for _, e := range tb.expects {
		if strings.Contains(text, e) {
			return
		}
	}
	tb.wrong = append(tb.wrong, text)
}

// listen records script errors, violations of the content security policy, and requests to other hosts.
func (tb *tab) listen(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Scheme != "data" && u.Host != tb.base.Host && !strings.HasPrefix(e.Request.URL, "about:") {
			tb.fault("%s asks for %s", e.DocumentURL, e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			tb.fault("%s answers %d", e.Response.URL, e.Response.Status)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			tb.fault("a request failed: %s %s %s", e.Type, e.ErrorText, e.BlockedReason)
		}
	case *runtime.EventExceptionThrown:
		tb.fault("a script failed: %v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning || e.Type == runtime.APITypeAssert {
			tb.fault("the console says: %s", e.Args[0].Value)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError || e.Entry.Level == cdplog.LevelWarning || e.Entry.Source == cdplog.SourceSecurity {
			tb.fault("the browser says: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	}
}

// expect permits an error that a test provokes.
func (tb *tab) expect(part string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.expects = append(tb.expects, part)
}

func (tb *tab) run(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(tb.ctx, actions...); err != nil {
		var where string
		_ = chromedp.Run(tb.ctx, chromedp.Location(&where)) // for the message
		t.Fatalf("in the browser at %s: %v", where, err)
	}
}

// visit opens a path, or a whole URL, and waits until its scripts have run.
func (tb *tab) visit(t *testing.T, path string) {
	t.Helper()
	u, err := tb.base.Parse(path)
	must(t, err)
	tb.run(t, chromedp.Navigate(u.String()), chromedp.WaitReady("main", chromedp.ByQuery))
}

// size resizes the window.
func (tb *tab) size(t *testing.T, width, height int64) {
	t.Helper()
	tb.run(t, chromedp.EmulateViewport(width, height))
}

// prefers sets the system's color scheme: "light" or "dark".
func (tb *tab) prefers(t *testing.T, colours string) {
	t.Helper()
	tb.run(t, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}}))
}

// scripts turns scripts on or off.
func (tb *tab) scripts(t *testing.T, on bool) {
	t.Helper()
	tb.run(t, emulation.SetScriptExecutionDisabled(!on))
}

// eval returns the value of an expression in the page.
func eval[T any](t *testing.T, tb *tab, expression string) (value T) {
	t.Helper()
	tb.run(t, chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return value
}

// until waits for an expression in the page to become true.
func (tb *tab) until(t *testing.T, what, expression string) {
	t.Helper()
	testwait.UntilState(t, what, func() (string, bool) {
		var yes bool
		err := chromedp.Run(tb.ctx, chromedp.Evaluate("Boolean("+expression+")", &yes)) // fails while a new page loads
		if yes && err == nil {
			return "", true
		}
		if tb.ctx.Err() != nil {
			t.Fatalf("%s: %s: %v", what, expression, err)
		}
		text := ""
		_ = chromedp.Run(tb.ctx, chromedp.Text("body", &text, chromedp.ByQuery)) // for the message
		return fmt.Sprintf("%s: %v\n%.2000s", expression, err, text), false
	})
}

// source returns the page as the server sent it.
func (tb *tab) source(t *testing.T) string {
	t.Helper()
	return eval[string](t, tb, `fetch(location.href).then((r) => r.text())`)
}

// accessible runs axe-core on the page.
func (tb *tab) accessible(t *testing.T, b *browser, where string) {
	t.Helper()
	tb.run(t, chromedp.Evaluate(b.checker(t)+"; true", nil))
	found := eval[[]string](t, tb, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"]})
		.then((r) => r.violations.flatMap((v) => v.nodes.slice(0, 3).map((n) => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary.replace(/\s+/g, " "))))`)
	for _, f := range found {
		t.Errorf("%s: %s", where, f)
	}
}

// shot writes a screenshot of the window.
func (tb *tab) shot(t *testing.T, file string) {
	t.Helper()
	var png []byte
	tb.run(t, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(80).Do(ctx)
		return err
	}))
	must(t, os.WriteFile(file, png, 0o644))
}

// evalTask runs an expression and discards its value.
func evalTask(expression string) chromedp.Action {
	return chromedp.Evaluate("void ("+expression+")", nil)
}

// keys presses keys in the page.
func keys(text string) chromedp.Action { return chromedp.KeyEvent(text) }
