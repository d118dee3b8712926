//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// alter runs a tare alter that is more than one command: one with a copy that runs until the next command, or a command
// on such a copy, which is started if the page has none.
func (d *documented) alter(t *testing.T, text string) {
	t.Helper()
	const modify = "tare alter --on mysql://app:secret@db1 --table shop.orders 'MODIFY id BIGINT NOT NULL'"
	begin := func(text string) {
		d.reset(t)
		d.altering = d.start(t, text)
		d.eventually(t, d.altering, "its control socket", func() bool { return d.command(t.Context(), "tare alter ctl status").Run() == nil })
	}
	swapped := func() {
		d.eventually(t, d.altering, "the way back", func() bool {
			status, err := d.command(t.Context(), "tare alter ctl status").Output()
			return err == nil && strings.Contains(d.altering.output(), "swaps the tables back") && strings.Contains(string(status), "reversing for")
		})
	}
	exits := func(code int) {
		b := d.altering
		d.altering = nil
		testwait.Receive(t, b.text+" to exit", b.exited)
		if got := b.cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("%s: exit code %d, want %d\n%s", b.text, got, code, b.output())
		}
	}
	switch {
	case strings.Contains(text, "--queue"):
		d.reset(t)
		must(t, os.WriteFile(filepath.Join(d.dir, "tonight.txt"), []byte(pageBlock(t, "../docs/tasks/alter-a-table.md", "text")), 0o600))
		d.run(t, text)
	case strings.Contains(text, "--postpone-cutover"):
		begin(text)
	case strings.Contains(text, "--cancel"):
		begin(modify + " --postpone-cutover")
		d.run(t, "tare alter ctl abort")
		exits(1)
		d.run(t, text)
	case strings.HasPrefix(text, "tare alter revert"):
		d.reset(t)
		d.run(t, modify)
		d.run(t, text)
	case !strings.HasPrefix(text, "tare alter ctl"):
		d.reset(t)
		d.run(t, text)
	default:
		if d.altering == nil {
			begin(modify + " --postpone-cutover --revert-window 1h")
		}
		if strings.Contains(text, "revert") {
			swapped()
		}
		if strings.HasSuffix(text, " cutover") { // refused until the rows are copied
			d.eventually(t, d.altering, "rows that are copied", func() bool { return d.command(t.Context(), text).Run() == nil })
			exits(0)
			return
		}
		d.run(t, text)
		switch {
		case strings.Contains(text, "abort"), strings.Contains(text, "cancel"):
			exits(1)
		case strings.Contains(text, "revert"):
			exits(0)
		}
	}
}

// stopAlter stops an alteration that a page leaves running.
func (d *documented) stopAlter(t *testing.T) {
	t.Helper()
	if d.altering != nil {
		d.end(t, d.altering, syscall.SIGTERM)
		d.altering = nil
	}
}

// pageBlock returns a page's first fenced block of a language.
func pageBlock(t *testing.T, file, language string) string {
	t.Helper()
	page, err := os.ReadFile(file)
	must(t, err)
	_, block, _ := strings.Cut(string(page), "```"+language+"\n")
	block, _, ok := strings.Cut(block, "```\n")
	if !ok {
		t.Fatalf("%s has no block of %s", file, language)
	}
	return block
}
