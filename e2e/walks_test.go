//go:build e2e

package e2e

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
)

// walks are incidents without an event, and the clicks of a person who finds the cause from the overview. See
// docs/tasks/find-the-cause.md.
var walks = []struct {
	name   string
	before func(t *testing.T, p *played)
	play   func(t *testing.T, p *played)
	clicks []click
}{
	{
		name: "crawler",
		before: func(_ *testing.T, p *played) {
			p.calls(p.db, 60, "SELECT id, note FROM orders ORDER BY customer, id LIMIT 20 OFFSET 20 /*route='%2Forders'*/")
		},
		play: func(_ *testing.T, p *played) {
			p.calls(p.db, 20, "SELECT id, note FROM orders ORDER BY customer, id LIMIT 20 OFFSET 15000 /*route='%2Fexport'*/")
		},
		clicks: []click{
			{"the statement", `Array.from(document.querySelectorAll(".events li a")).find((e) => /OFFSET/.test(e.closest("li").innerText))`, "heavier since", ""},
			{"Incident card", `Array.from(document.querySelectorAll("main a")).find((a) => a.innerText === "Incident card")`, "export", "walk-crawler"},
		},
	},
	{
		name: "cast",
		before: func(t *testing.T, p *played) {
			p.exec(t, "ALTER TABLE goods ADD COLUMN code VARCHAR(20), ADD INDEX code (code)")
			p.exec(t, "UPDATE goods SET code = CONCAT('0', id)")
			p.replace = p.calls(p.db, 60, "SELECT note FROM goods WHERE code = '04711'")
		},
		play: func(_ *testing.T, p *played) {
			p.replace()
			p.calls(p.db, 60, "SELECT note FROM goods WHERE code = 4711")
		},
		clicks: []click{
			{"the statement", `Array.from(document.querySelectorAll(".events li a")).find((e) => /code/.test(e.closest("li").innerText))`, "heavier since", ""},
			{"Incident card", `Array.from(document.querySelectorAll("main a")).find((a) => a.innerText === "Incident card")`, "goods full scan", "walk-cast"},
		},
	},
	{
		name: "renamed",
		before: func(_ *testing.T, p *played) {
			p.calls(p.db, 60, "SELECT note FROM goods WHERE id = 4 /*route='%2Fgoods'*/")
		},
		play: func(t *testing.T, p *played) {
			must(t, p.s.Exec("ALTER TABLE incidents.goods RENAME COLUMN note TO remark")) // not through the gateway
		},
		clicks: []click{
			{"All queries", `Array.from(document.querySelectorAll("main a")).find((a) => a.innerText === "All queries" && /Errors[^0]*[1-9]/.test(document.querySelector("dl.figures").innerText))`, "Statement", ""},
			{"Errors", `Array.from(document.querySelectorAll("table.queries th a")).find((a) => /Errors/.test(a.innerText))`, "Errors ↓", ""},
			{"the statement", `document.querySelector("table.queries tbody a") ?? undefined`, "1054", "walk-renamed"},
		},
	},
}

// A click is one step of a person: a link, and a text that the page that it leads to has.
type click struct{ what, link, shows, picture string }

// reload reloads a page.
func reload(t *testing.T, tb *tab) {
	tb.visit(t, eval[string](t, tb, `location.pathname + location.search`))
}

// TestWalks plays incidents and clicks from the overview to the cause. It logs the seconds since the onset, and takes a picture of
// the last page if TARE_SCREENSHOTS names a directory.
func TestWalks(t *testing.T) {
	b := startBrowser(t)
	for _, w := range walks {
		t.Run(w.name, func(t *testing.T) {
			s, err := testmysql.New(testmysql.WithPerformanceSchema())
			must(t, err)
			t.Cleanup(func() { must(t, s.Close()) })
			i := startIncident(t, s)
			must(t, s.Exec("CREATE TABLE incidents.goods LIKE incidents.orders", "INSERT INTO incidents.goods SELECT * FROM incidents.orders"))
			driver, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			p := &played{incident: i, s: s, driver: driver}
			t.Cleanup(func() {
				cancel()
				for n := len(p.stops) - 1; n >= 0; n-- {
					p.stops[n]()
				}
			})
			w.before(t, p)
			for _, text := range []string{steadyText, mainText, "SELECT note FROM goods WHERE id = 3", "SELECT COUNT(*) FROM goods WHERE customer = 9"} {
				p.calls(p.db, 60, text)
			}
			began := time.Now().UTC().Add(3 * time.Second)
			eventually(t, "calls before the onset", func() bool {
				v, ok := promValue(t, i.tare, `sum(tare_queries_total{digest!~"other|evicted"})`)
				return ok && v >= 9000
			})
			tb := b.open(t, i.http)
			tb.size(t, 1280, 900)
			from := "?from=" + url.QueryEscape(began.Format(time.RFC3339))
			onset := time.Now()
			w.play(t, p)
			tb.visit(t, "/"+from)
			for n, c := range w.clicks {
				eventually(t, c.what+" on "+eval[string](t, tb, `location.pathname`), func() bool {
					reload(t, tb)
					return eval[bool](t, tb, `(`+c.link+`) !== undefined`)
				})
				t.Logf("%5.1f s: %s is there", time.Since(onset).Seconds(), c.what)
				tb.visit(t, eval[string](t, tb, `(({pathname, search}) => pathname + search)(new URL((`+c.link+`).href))`))
				eventually(t, c.shows+" after a click on "+c.what, func() bool {
					found := eval[bool](t, tb, `/`+c.shows+`/i.test(document.querySelector("main")?.innerText ?? "")`)
					if !found {
						reload(t, tb)
					}
					return found
				})
				t.Logf("%5.1f s: click %d, %s", time.Since(onset).Seconds(), n+1, c.what)
				if dir := os.Getenv("TARE_SCREENSHOTS"); dir != "" && c.picture != "" {
					tb.shot(t, filepath.Join(dir, c.picture+".webp"))
				}
			}
		})
	}
}
