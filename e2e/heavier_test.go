//go:build e2e

package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestHeavier checks that a statement that becomes heavy is listed as needing attention, with the start time,
// and that its page reports longer calls.
func TestHeavier(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	eventually(t, "a time without it", func() bool {
		tb.visit(t, "/queries?from=now-5m&filter=sleep")
		return eval[bool](t, tb, `Date.now() - Date.parse(document.querySelector("table.queries tbody td:last-child").textContent.replace(" ", "T") + "Z") > 20_000`)
	})
	began := time.Now().UTC()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var clients sync.WaitGroup
	t.Cleanup(func() {
		stop()
		testwait.Group(t, "the clients to stop", &clients)
	})
	for range 4 {
		db := open(t, p.addr, "pages")
		clients.Go(func() {
			for ctx.Err() == nil {
				_, _ = db.ExecContext(ctx, "select sleep(0.1)") // until the test ends
			}
		})
	}
	eventually(t, "it is told", func() bool {
		tb.visit(t, "/?from=now-5m")
		return eval[bool](t, tb, `Array.from(document.querySelectorAll(".events li"), (e) => e.innerText).some((e) => /^Heavier/.test(e) && /sleep/i.test(e))`)
	})
	text := eval[string](t, tb, `Array.from(document.querySelectorAll(".events li"), (e) => e.innerText).find((e) => /sleep/i.test(e))`)
	at, err := time.Parse(time.DateTime, strings.TrimSpace(strings.TrimPrefix(text, "Heavier"))[:len(time.DateTime)])
	must(t, err)
	if d := at.Sub(began); d < -5*time.Second || d > 5*time.Second {
		t.Errorf("it began at %s; the page says: %s", began.Format(time.DateTime), text)
	}
	tb.run(t, evalTask(`Array.from(document.querySelectorAll(".events a")).find((a) => /sleep/i.test(a.innerText)).click()`))
	tb.until(t, "with its reason", `/^[0-9.]+× heavier since [0-9:]+: each call takes [0-9.]+× longer/.test(document.querySelector("p.rise")?.textContent)`)
	tb.accessible(t, b, "a statement that is heavier")
}
