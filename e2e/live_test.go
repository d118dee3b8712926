//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestLivePage watches statements as they arrive: with a filter, paused, with other columns, and a whole
// line.
func TestLivePage(t *testing.T) {
	b := startBrowser(t)
	p := gatewayUnderLoad(t)
	tb := b.open(t, p.http)
	tb.size(t, 1280, 900)
	tb.visit(t, "/live?slow=2ms")
	rows := `document.querySelectorAll("#live-table tbody tr[data-row]")`
	tb.until(t, "streaming", rows+`.length > 20`)
	tb.until(t, "marked", `["slow", "error 1146"].every((w) => Array.from(document.querySelectorAll("#live-table .tag"), (t) => t.textContent).includes(w))`)
	tb.accessible(t, b, "the live log")

	// While paused, nothing moves; lines that arrived meanwhile appear afterwards.
	tb.run(t, evalTask(`document.querySelector("#live-pause").click()`))
	first := eval[string](t, tb, rows+`[0].dataset.row`)
	tb.until(t, "waiting", `/\b[1-9]\d* wait/.test(document.querySelector("#live-counts").textContent)`)
	if now := eval[string](t, tb, rows+`[0].dataset.row`); now != first {
		t.Errorf("paused at %s, and now %s is on top", first, now)
	}
	tb.run(t, evalTask(`document.querySelector("#live-pause").click()`))
	tb.until(t, "moving", rows+`[0].dataset.row !== "`+first+`"`)

	// A filter, which is part of the address.
	tb.run(t, evalTask(`document.querySelector("#live-filter").value = "normalized~sleep", document.querySelector("#live-form").requestSubmit()`))
	tb.until(t, "filtered", rows+`.length > 3 && Array.from(`+rows+`).every((r) => r.textContent.toLowerCase().includes("sleep"))`)
	if at := eval[string](t, tb, `location.search`); !strings.Contains(at, "filter=normalized%7Esleep") || !strings.Contains(at, "slow=2ms") {
		t.Errorf("the address is %s", at)
	}

	// Columns, stored for the next visit.
	head := `Array.from(document.querySelectorAll("#live-table th"), (h) => h.textContent).join()`
	tb.run(t, evalTask(`document.querySelector(".columns input[value=digest]").click()`))
	tb.until(t, "with digests", head+`.includes("Digest")`)
	tb.visit(t, "/live")
	tb.until(t, "with digests again", head+`.includes("Digest")`)

	// A whole line.
	tb.until(t, "streaming again", rows+`.length > 0`)
	tb.run(t, evalTask(`document.querySelector("#live-pause").click()`), evalTask(rows+`[0].querySelector("button").click()`))
	tb.until(t, "whole", `document.querySelector("tr.whole")?.textContent.includes("connection_id")`)

	// An invalid filter, and lines in excess of what the page keeps.
	tb.expect("answers 400")
	tb.expect("status of 400")
	tb.run(t, evalTask(`document.querySelector("#live-filter").value = "=", document.querySelector("#live-form").requestSubmit()`))
	tb.until(t, "told", `document.querySelector("#live-status.bad") !== null`)
	tb.visit(t, "/live")
	tb.until(t, "full", rows+`.length === 500`)
	tb.until(t, "past that", `parseInt(document.querySelector("#live-counts").textContent.replace(",", "")) > 600`)
	if n := eval[int](t, tb, rows+`.length`); n != 500 {
		t.Errorf("%d rows in the page", n)
	}
}

// TestLivePageWithoutScripts checks that the page states that it requires scripts, and where the lines are
// available without.
func TestLivePageWithoutScripts(t *testing.T) {
	b := startBrowser(t)
	p := startTare(t, mariadb.Addr)
	tb := b.open(t, p.http)
	tb.scripts(t, false)
	tb.visit(t, "/live")
	if text := eval[string](t, tb, `document.querySelector("main").innerText`); !strings.Contains(text, "needs scripts") || strings.Contains(text, "Connecting") {
		t.Errorf("the page says %q", text)
	}
	link := eval[string](t, tb, `document.querySelector("main noscript a, main a").href`)
	if !strings.Contains(link, "/debug/querylog?") || !strings.Contains(link, "format=text") {
		t.Errorf("it leads to %s", link)
	}
}
