//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// startDemo runs `tare demo` until the test ends, and returns the address of its pages.
func startDemo(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(filepath.Dir(binary), "tare-demo")); err != nil {
		mustRun(t, "", "go", "build", "-C", "../cmd/tare-demo", "-o", filepath.Dir(binary)+"/", ".")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "demo", "--http", freeAddr(t))
	out, err := cmd.StdoutPipe()
	must(t, err)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	must(t, cmd.Start())
	pages, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if rest, ok := strings.CutPrefix(lines.Text(), "Pages"); ok {
				pages <- strings.TrimSpace(rest)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		testwait.Receive(t, "the end of the demo's output", read)
		if err := cmd.Wait(); err != nil {
			t.Errorf("tare demo: %v\n%s", err, &complaints)
		}
	})
	select {
	case at := <-pages:
		return at
	case <-read:
		t.Fatalf("tare demo ended:\n%s", &complaints)
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the demo's pages")
	}
	return ""
}

// released matches the overview that names the demo's release at a statement that became heavier: as its cause, or, on a
// machine where the statement's calls take longer too, without evidence.
var released = regexp.MustCompile(`(?s)order_items.*heavier.*(Caused by|without evidence:) shop 4\.2`)

// TestDemo checks that the demo prints the address of its pages, and that the deliberately slow statement is
// the first by mean duration, with the PromQL of its charts. After a minute the overview names the release at which
// another statement became heavier.
func TestDemo(t *testing.T) {
	b := startBrowser(t)
	at := startDemo(t)
	tb := b.open(t, at)
	// In the first seconds an engine that warms up may be slower at another statement.
	eventually(t, "the slow statement, first in the pages", func() bool {
		tb.visit(t, "/queries?from=now-15m&sort=mean")
		first := eval[string](t, tb, `document.querySelector("table.queries tbody a")?.textContent ?? ""`)
		return strings.Contains(first, "JOIN") && strings.Contains(first, "visits") &&
			eval[int](t, tb, `document.querySelectorAll("table.queries tbody tr").length`) >= 10
	})
	tb.run(t, evalTask(`document.querySelector("table.queries tbody a").click()`))
	tb.until(t, "on its page", `location.pathname.startsWith("/query/") && document.querySelectorAll(".copybox code").length > 1`)
	for _, path := range append(navigation(t, tb), eval[string](t, tb, `location.pathname`)) {
		look(t, b, at, path)
	}
	tb = b.open(t, at) // with time of its own
	var text string
	defer func() {
		if t.Failed() {
			t.Logf("the overview: %s", text)
		}
	}()
	eventually(t, "the release at a heavier statement", func() bool {
		tb.visit(t, "/?from=now-5m")
		text = eval[string](t, tb, `document.querySelector("main").innerText`)
		return released.MatchString(text)
	})
}

// TestFirstMinute follows docs/start/first-hour.md like a new user, and logs the duration of each step: from
// the address that the demo prints to promtool's result.
func TestFirstMinute(t *testing.T) {
	b := startBrowser(t)
	begun := time.Now()
	step := func(what string) { t.Logf("%5.1f s  %s", time.Since(begun).Seconds(), what) }
	at := startDemo(t)
	step("the demo says where its pages are")
	tb := b.open(t, at)
	tb.size(t, 1280, 900)
	tb.visit(t, "/")
	step("the overview is there")
	tb.run(t, evalTask(`Array.from(document.querySelectorAll("nav a")).find((a) => a.textContent === "Queries").click()`))
	tb.until(t, "among the queries", `location.pathname === "/queries" && document.querySelector("main h1") !== null`)
	mean := `Array.from(document.querySelectorAll("table.queries th a")).find((a) => a.textContent.startsWith("Mean"))`
	eventually(t, "statements are counted", func() bool {
		tb.visit(t, "/queries")
		return eval[bool](t, tb, mean+` !== undefined`)
	})
	tb.run(t, evalTask(mean+`.click()`))
	tb.until(t, "sorted by the mean", `document.querySelector("th[aria-sort=descending]")?.textContent.includes("Mean")`)
	guide, err := os.ReadFile("../docs/start/first-hour.md")
	must(t, err)
	digest := regexp.MustCompile(`\{digest="([0-9a-f]+)"`).FindSubmatch(guide)
	if digest == nil {
		t.Fatal("docs/start/first-hour.md has no digest")
	}
	eventually(t, "the slow statement, first, with the digest of the guide", func() bool {
		tb.visit(t, "/queries?sort=mean")
		return eval[bool](t, tb, fmt.Sprintf(`(document.querySelector("table.queries tbody a")?.getAttribute("href") ?? "").startsWith("/query/%s")`, digest[1]))
	})
	step("the slow statement is the first by its mean")
	tb.run(t, evalTask(`document.querySelector("table.queries tbody a").click()`))
	tb.until(t, "on its page", `location.pathname.startsWith("/query/") && document.querySelector("#latency details.promql code") !== null`)
	since := eval[string](t, tb, `document.querySelector("main").innerText.match(/first call ([-0-9]+ [:0-9]+)/)[1]`)
	step("its page says since when: " + since)
	promql := eval[string](t, tb, `document.querySelector("#latency details.promql code").textContent`)
	var respond string
	eventually(t, "two samples to make a rate of", func() bool {
		respond = mustRun(t, "", "promtool", "query", "instant", at, promql)
		return regexp.MustCompile(`^\{\} => [0-9.]+ @`).MatchString(respond)
	})
	step("promtool query instant " + at + " '" + promql + "' answers " + strings.TrimSpace(respond))
}

// TestScreenshots takes the screenshots of README and docs if a directory is given.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("TARE_SCREENSHOTS")
	if dir == "" {
		t.Skip("TARE_SCREENSHOTS names no directory: see make screenshots")
	}
	must(t, os.MkdirAll(dir, 0o755))
	b := startBrowser(t)
	tb := b.open(t, startDemo(t))
	tb.size(t, 1280, 800)
	eventually(t, "most of a minute of load", func() bool {
		tb.visit(t, "/queries?from=now-5m&sort=mean")
		// According to the first statement; the number of statements depends on the machine.
		return eval[bool](t, tb, `Date.now() - Date.parse(document.querySelector("table.queries tbody td:last-child")?.textContent.replace(" ", "T") + "Z") > 50_000`)
	})
	slow := eval[string](t, tb, `new URL(document.querySelector("table.queries tbody a").href).pathname`)
	heavier := `Array.from(document.querySelectorAll(".events li")).find((e) => /order_items[^]*heavier[^]*(Caused by|without evidence:) shop/.test(e.innerText))`
	eventually(t, "the release as the cause of a heavier statement", func() bool {
		tb.visit(t, "/?from=now-5m")
		return eval[bool](t, tb, heavier+` !== undefined`)
	})
	incident := strings.Replace(eval[string](t, tb, heavier+`.querySelector("a").pathname`), "/query/", "/incident/", 1)
	for _, c := range []struct {
		name, path, colours string
		width, height       int64
	}{
		{"overview", "/?from=now-5m", "light", 1280, 800},
		{"query", slow + "?from=now-5m", "dark", 1280, 800},
		{"incident", incident + "?from=now-2m", "light", 1280, 1000},
		{"incident-phone", incident + "?from=now-2m", "light", 390, 844},
	} {
		tb.prefers(t, c.colours)
		tb.size(t, c.width, c.height)
		tb.visit(t, c.path)
		tb.shot(t, filepath.Join(dir, c.name+".webp"))
	}
}
