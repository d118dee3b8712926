//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// An incident is a gateway in front of a server, with clients that call statements of its table orders.
type incident struct {
	*tare
	db *sql.DB
}

// load has 8 clients call a statement, 100 times per second at most, until the test ends.
func (i *incident) load(t *testing.T, text string) {
	const clients = 8
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var calling sync.WaitGroup
	t.Cleanup(func() {
		stop()
		testwait.Group(t, "the clients to stop", &calling)
	})
	for range clients {
		calling.Go(func() {
			pause := time.NewTicker(clients * 10 * time.Millisecond)
			defer pause.Stop()
			for ctx.Err() == nil {
				if rows, err := i.db.QueryContext(ctx, text); err == nil {
					for rows.Next() {
						continue // the rows do not matter
					}
					rows.Close()
				}
				select {
				case <-ctx.Done():
				case <-pause.C:
				}
			}
		})
	}
}

// incidents are what happens to a gateway under load, and texts that name the cause: on the overview, and on the page
// that its link leads to.
var incidents = []struct {
	name   string
	load   string // before it
	start  func(t *testing.T, i *incident)
	events string // regular expression of the overview's event
	cause  string // regular expression of the page
}{
	{
		"a dropped index", "SELECT * FROM orders WHERE customer = 7",
		func(t *testing.T, i *incident) {
			_, err := i.db.ExecContext(t.Context(), "ALTER TABLE orders DROP INDEX k")
			must(t, err)
		},
		`^Heavier[^]*orders[^]*Caused by ALTER TABLE`, `heavier since[^]*Caused by ALTER TABLE[^]*DROP INDEX`,
	},
	{
		"locks of one client", "UPDATE orders SET note = 'x' WHERE id = 5",
		func(t *testing.T, i *incident) {
			tx, err := i.db.BeginTx(context.WithoutCancel(t.Context()), nil)
			must(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			var note string
			must(t, tx.QueryRowContext(t.Context(), "SELECT note FROM orders WHERE id = 5 FOR UPDATE").Scan(&note))
		},
		`onnection \d+ \(\w+ from 127\.0\.0\.1:\d+\) [^]*holds a row lock on incidents\.orders`, `Connection \d+ \(\w+ from 127\.0\.0\.1:\d+[^]*sessions wait`,
	},
	{
		"a deployed query", "SELECT COUNT(*) FROM orders WHERE customer = 7",
		func(t *testing.T, i *incident) {
			resp, err := http.Post(i.http+"/api/v1/events", "application/json", strings.NewReader(`{"kind": "deploy", "title": "shop 4.2"}`))
			must(t, err)
			must(t, resp.Body.Close())
			i.load(t, "SELECT note FROM orders WHERE id = 5")
		},
		`^New statement[^]*note[^]*Caused by shop 4\.2`, `Caused by shop 4\.2`,
	},
}

// TestIncidents plays incidents on MariaDB and MySQL: the overview names the cause. A reader goes from there to the page
// of the incident by keys alone, on a desktop and on a phone, by two links at most.
func TestIncidents(t *testing.T) {
	b := startBrowser(t)
	for server, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		for _, c := range incidents {
			t.Run(server+"/"+c.name, func(t *testing.T) {
				s, err := testmysql.New(append(opts, testmysql.WithPerformanceSchema())...)
				if errors.Is(err, testmysql.ErrNoMySQL) {
					t.Skip(err)
				}
				must(t, err)
				t.Cleanup(func() { must(t, s.Close()) })
				i := startIncident(t, s)
				i.load(t, c.load)
				began := time.Now().UTC().Add(2 * time.Second) // later than the first call
				from := "?from=" + url.QueryEscape(began.Format(time.RFC3339))
				tb := b.open(t, i.http)
				tb.size(t, 1280, 900)
				eventually(t, "some calls before it", func() bool {
					v, ok := promValue(t, i.tare, `sum(tare_queries_total{digest!~"other|evicted"})`)
					return ok && v >= 1000
				})
				onset := time.Now()
				c.start(t, i)
				event := fmt.Sprintf(`Array.from(document.querySelectorAll(".events li")).find((e) => /%s/.test(e.innerText))`, c.events)
				eventually(t, "the cause, on the overview", func() bool {
					tb.visit(t, "/"+from)
					return eval[bool](t, tb, event+` !== undefined`)
				})
				t.Logf("%4.1f s after its onset the overview names the cause: %s", time.Since(onset).Seconds(), eval[string](t, tb, event+`.innerText`))
				for _, width := range []int64{1280, 360} {
					where := fmt.Sprintf("%s, %d wide", c.name, width)
					tb.size(t, width, 800)
					tb.visit(t, "/"+from)
					tb.accessible(t, b, where+", the overview")
					tb.follow(t, "the event of "+where, event+`.querySelector("a")`)
					if !strings.HasPrefix(eval[string](t, tb, `location.pathname`), "/incident/") {
						tb.follow(t, "the incident card of "+where, `Array.from(document.querySelectorAll("main a")).find((a) => a.innerText === "Incident card")`)
					}
					tb.until(t, "the cause, on the page of "+where, fmt.Sprintf(`location.pathname.startsWith("/incident/") && /%s/.test(document.querySelector("main").innerText)`, c.cause))
					if over := eval[float64](t, tb, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
						t.Errorf("%s: the page is %v pixels wider than the window", where, over)
					}
					tb.accessible(t, b, where)
				}
			})
		}
	}
}

// startIncident starts a gateway in front of a server with a table.
func startIncident(t *testing.T, s *testmysql.Server) *incident {
	t.Helper()
	must(t, s.Exec(
		"CREATE DATABASE incidents CHARACTER SET utf8mb4",
		"CREATE TABLE incidents.orders (id INT PRIMARY KEY, customer INT, note VARCHAR(100), KEY k (customer))",
		"INSERT INTO incidents.orders SELECT n, n % 5000, REPEAT('x', 100) FROM (WITH RECURSIVE x AS (SELECT 1 n UNION ALL SELECT n + 1 FROM x WHERE n < 1000) SELECT n FROM x) y",
	))
	for n := 1000; n < 16000; n *= 2 {
		must(t, s.Exec(fmt.Sprintf("INSERT INTO incidents.orders SELECT id + %d, customer + %d, note FROM incidents.orders", n, n)))
	}
	must(t, s.Exec("ANALYZE TABLE incidents.orders"))
	p := startTare(t, s.Addr, "--bucket", "file://"+t.TempDir(), "--history-interval", "1s",
		"--control", "mysql://"+testmysql.RootUser+":"+testmysql.Password+"@"+s.Addr)
	return &incident{p, open(t, p.addr, "incidents")}
}

// follow presses Tab until a link has the focus, and Enter.
func (tb *tab) follow(t *testing.T, what, link string) {
	t.Helper()
	tb.until(t, what, link+` !== undefined`)
	href := eval[string](t, tb, link+`.href`)
	for range 300 {
		tb.run(t, keys(kb.Tab))
		if eval[string](t, tb, `document.activeElement?.href ?? ""`) == href {
			if !eval[bool](t, tb, `document.activeElement.matches(":focus-visible") && document.activeElement.checkVisibility()`) {
				t.Errorf("%s: its focus is not visible", what)
			}
			tb.run(t, keys(kb.Enter))
			tb.until(t, what+", followed", fmt.Sprintf(`location.href === %q && document.querySelector("main h1") !== null`, href))
			return
		}
	}
	t.Fatalf("%s: Tab does not reach %s", what, href)
}
