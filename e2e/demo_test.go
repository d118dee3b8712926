//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startDemo runs `tare demo` until the test ends, and returns the address of its pages.
func startDemo(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(filepath.Dir(binary), "tare-demo")); err != nil {
		mustRun(t, "", "go", "build", "-trimpath", "-o", filepath.Dir(binary), "github.com/taredb/tare/cmd/tare-demo")
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
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("tare demo: %v\n%s", err, &complaints)
		}
	})
	select {
	case at := <-pages:
		return at
	case <-read:
		t.Fatalf("tare demo ended:\n%s", &complaints)
	}
	return ""
}

// TestDemo: the demo says where its pages are, and the statement that is slow on purpose is the first by
// its mean, with the PromQL of its charts.
func TestDemo(t *testing.T) {
	b := startBrowser(t)
	at := startDemo(t)
	tb := b.open(t, at)
	eventually(t, "a statement in the pages", func() bool {
		tb.visit(t, "/queries?from=now-15m&sort=mean")
		return eval[int](t, tb, `document.querySelectorAll("table.queries tbody tr").length`) >= 10
	})
	first := eval[string](t, tb, `document.querySelector("table.queries tbody a").textContent`)
	if !strings.Contains(first, "JOIN") || !strings.Contains(first, "visits") {
		t.Errorf("the slowest statement is %s", first)
	}
	tb.run(t, evalTask(`document.querySelector("table.queries tbody a").click()`))
	tb.until(t, "on its page", `location.pathname.startsWith("/query/") && document.querySelectorAll(".copybox code").length > 1`)
	for _, path := range append(navigation(t, tb), eval[string](t, tb, `location.pathname`)) {
		look(t, b, at, path)
	}
}

// TestScreenshots makes the pictures of README and docs when it is told where to.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("TARE_SCREENSHOTS")
	if dir == "" {
		t.Skip("TARE_SCREENSHOTS names no directory: see make screenshots")
	}
	must(t, os.MkdirAll(dir, 0o755))
	b := startBrowser(t)
	tb := b.open(t, startDemo(t))
	tb.size(t, 1280, 800)
	eventually(t, "a minute of load", func() bool {
		tb.visit(t, "/queries?from=now-5m&sort=mean")
		return eval[bool](t, tb, `Array.from(document.querySelectorAll("main p")).some((p) => parseInt((p.textContent.match(/together ([\d,]+) calls/) ?? [])[1]?.replaceAll(",", "")) > 30000)`)
	})
	slow := eval[string](t, tb, `new URL(document.querySelector("table.queries tbody a").href).pathname`)
	for _, c := range []struct{ name, path, colours string }{
		{"overview", "/?from=now-5m", "light"},
		{"query", slow + "?from=now-5m", "dark"},
	} {
		tb.prefers(t, c.colours)
		tb.visit(t, c.path)
		tb.shot(t, filepath.Join(dir, c.name+".webp"))
	}
}
