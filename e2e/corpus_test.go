//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A played is a gateway in front of a server, with an application of some statements, while a script of the corpus runs.
type played struct {
	*incident
	s      *testmysql.Server
	stops  []func()
	driver context.Context

	replace func() // stops the calls that a script replaces
}

// calls calls a statement from some sessions, in all rate times per second at most, until the returned function is called.
func (p *played) calls(db *sql.DB, rate int, text string) (stop func()) {
	const clients = 8
	ctx, cancel := context.WithCancel(p.driver)
	var calling sync.WaitGroup
	for range clients {
		calling.Go(func() {
			pause := time.NewTicker(clients * time.Second / time.Duration(rate))
			defer pause.Stop()
			for ctx.Err() == nil {
				if rows, err := db.QueryContext(ctx, text); err == nil {
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
	stop = func() { cancel(); calling.Wait() }
	p.stops = append(p.stops, stop)
	return stop
}

// deploy reports a deployment.
func (p *played) deploy(t *testing.T, title string) {
	resp, err := http.Post(p.http+"/api/v1/events", "application/json", strings.NewReader(`{"kind": "deploy", "title": "`+title+`"}`))
	must(t, err)
	must(t, resp.Body.Close())
}

func (p *played) exec(t *testing.T, text string) {
	_, err := p.db.ExecContext(t.Context(), text)
	must(t, err)
}

// another opens connections of another user.
func (p *played) another(t *testing.T) *sql.DB {
	db, err := sql.Open("mysql", testmysql.RootUser+":"+testmysql.Password+"@tcp("+p.addr+")/incidents")
	must(t, err)
	p.stops = append(p.stops, func() { _ = db.Close() })
	return db
}

const (
	mainText   = "SELECT * FROM orders WHERE customer = 7"
	steadyText = "SELECT note FROM orders WHERE id = 5"
	otherText  = "SELECT note FROM goods WHERE customer = 9"
)

// A realScript is a script of the corpus that a server plays in a minute.
type realScript struct {
	name, main string // main: the statement whose load rises; "": mainText
	want       []string
	none       bool // nothing needs attention
	only       string
	play       func(t *testing.T, p *played)
}

var realScripts = []realScript{
	{name: "dropped index", want: []string{"ddl"}, play: func(t *testing.T, p *played) { p.exec(t, "ALTER TABLE orders DROP INDEX k") }},
	{name: "dropped index by DROP INDEX, deploy nearby", want: []string{"ddl"}, play: func(t *testing.T, p *played) {
		p.deploy(t, "unrelated")
		p.exec(t, "DROP INDEX k ON orders")
	}},
	{name: "dropped index, DDL of another table nearby", want: []string{"ddl"}, play: func(t *testing.T, p *played) {
		p.exec(t, "ALTER TABLE goods DROP INDEX k")
		p.exec(t, "ALTER TABLE orders DROP INDEX k")
	}},
	{name: "invisible index", only: "MySQL", want: []string{"ddl"}, play: func(t *testing.T, p *played) { p.exec(t, "ALTER TABLE orders ALTER INDEX k INVISIBLE") }},
	{name: "ignored index", only: "MariaDB", want: []string{"ddl"}, play: func(t *testing.T, p *played) { p.exec(t, "ALTER TABLE orders ALTER INDEX k IGNORED") }},
	{name: "changed type of a column", want: []string{"ddl"}, play: func(t *testing.T, p *played) { p.exec(t, "ALTER TABLE orders MODIFY customer VARCHAR(20)") }},
	{name: "dropped index of several", want: []string{"ddl"}, play: func(t *testing.T, p *played) {
		p.exec(t, "ALTER TABLE orders ADD COLUMN extra INT, DROP INDEX k, ADD INDEX n (note)")
	}},
	{name: "index of another table dropped", main: otherText, want: []string{"ddl"}, play: func(t *testing.T, p *played) { p.exec(t, "ALTER TABLE goods DROP INDEX k") }},
	{name: "row lock of one transaction", main: "UPDATE orders SET note = 'y' WHERE id = 6", want: []string{"lock"}, play: func(t *testing.T, p *played) {
		tx, err := p.another(t).BeginTx(p.driver, nil)
		must(t, err)
		p.stops = append(p.stops, func() { _ = tx.Rollback() })
		_, err = tx.ExecContext(t.Context(), "UPDATE orders SET note = 'z' WHERE id = 6")
		must(t, err)
	}},
	{name: "row lock, deploy nearby", main: "UPDATE orders SET note = 'y' WHERE id = 6", want: []string{"lock"}, play: func(t *testing.T, p *played) {
		p.deploy(t, "unrelated")
		tx, err := p.another(t).BeginTx(p.driver, nil)
		must(t, err)
		p.stops = append(p.stops, func() { _ = tx.Rollback() })
		var note string
		must(t, tx.QueryRowContext(t.Context(), "SELECT note FROM orders WHERE id = 6 FOR UPDATE").Scan(&note))
	}},
	{name: "deploy with a new query", main: "SELECT COUNT(*) FROM goods WHERE note LIKE '%x%'", want: []string{"deploy"}, play: func(t *testing.T, p *played) {
		p.deploy(t, "shop 4.2")
		p.calls(p.db, 20, "SELECT COUNT(*) FROM goods WHERE note LIKE '%x%'")
	}},
	{name: "deploy with N+1", main: steadyText, want: []string{"deploy"}, play: func(t *testing.T, p *played) {
		p.deploy(t, "shop 4.2")
		for range 3 {
			p.calls(p.db, 1000, steadyText)
		}
	}},
	{name: "deploy with a lost LIMIT", main: "SELECT * FROM goods ORDER BY note", want: []string{"deploy"}, play: func(t *testing.T, p *played) {
		p.deploy(t, "shop 4.2")
		p.calls(p.db, 10, "SELECT * FROM goods ORDER BY note")
	}},
	{name: "deploy with heavier values, tagged", main: "SELECT COUNT(*) FROM goods WHERE id < 10 AND note LIKE 'x%'", want: []string{"deploy"}, play: func(t *testing.T, p *played) {
		p.deploy(t, "shop 4.2")
		p.stops[0]()
		p.calls(p.db, 50, "SELECT COUNT(*) FROM goods WHERE id < 30000 AND note LIKE 'x%' /*release='4.2'*/")
	}},
	{name: "one user in a loop", main: mainText, want: []string{"caller"}, play: func(t *testing.T, p *played) {
		other := p.another(t)
		for range 4 {
			p.calls(other, 2000, mainText)
		}
	}},
	{name: "batch job", main: "SELECT COUNT(DISTINCT note) FROM goods", want: []string{"caller"}, play: func(t *testing.T, p *played) {
		p.calls(p.another(t), 10, "SELECT COUNT(DISTINCT note) FROM goods")
	}},
	{name: "cache of the application cleared", main: mainText, play: func(t *testing.T, p *played) {
		for range 2 {
			p.calls(p.db, 1000, mainText)
		}
	}},
	{name: "unused index dropped", none: true, play: func(t *testing.T, p *played) { p.exec(t, "ALTER TABLE orders DROP INDEX unused") }},
	{name: "deploy without effect", none: true, play: func(t *testing.T, p *played) { p.deploy(t, "shop 4.3") }},
	{name: "column added", none: true, play: func(t *testing.T, p *played) { p.exec(t, "ALTER TABLE orders ADD COLUMN extra INT") }},
	{name: "table analyzed", none: true, play: func(t *testing.T, p *played) {
		rows, err := p.db.QueryContext(t.Context(), "ANALYZE TABLE orders")
		must(t, err)
		must(t, rows.Close())
	}},
	{name: "nothing", none: true, play: func(*testing.T, *played) {}},
}

// TestCorpusServers plays scripts of the corpus on MariaDB and MySQL with the built binary, and expects the causes in bold
// to be right. Each script is a test of its own, so that an interrupted run resumes with -run TestCorpusServers/MySQL/name.
func TestCorpusServers(t *testing.T) {
	var right, bold, named, expected, alarms, ran int
	var mu sync.Mutex // guards them
	var servers sync.WaitGroup
	for _, server := range []string{"MariaDB", "MySQL"} {
		opts := []testmysql.Option{testmysql.WithPerformanceSchema(), testmysql.WithArgs("--innodb-lock-wait-timeout=600")}
		if server == "MySQL" {
			opts = append(opts, testmysql.WithMySQL())
		}
		play := func(t *testing.T) {
			scripts := make(chan realScript, len(realScripts))
			for _, c := range realScripts {
				if c.only == "" || c.only == server {
					scripts <- c
				}
			}
			close(scripts)
			var started []*testmysql.Server
			for range 2 { // scripts wait more than they compute
				s, err := testmysql.New(opts...)
				if errors.Is(err, testmysql.ErrNoMySQL) {
					t.Skip(err)
				}
				must(t, err)
				t.Cleanup(func() { must(t, s.Close()) })
				started = append(started, s)
			}
			var lanes sync.WaitGroup
			for _, s := range started {
				lanes.Go(func() {
					for c := range scripts {
						t.Run(c.name, func(t *testing.T) {
							main := c.main
							if main == "" {
								main = mainText
							}
							kind, events := playScript(t, s, main, c.play, c.want)
							mu.Lock()
							defer mu.Unlock()
							ran++
							attention := strings.Contains(events, "Heavier") || strings.Contains(events, "New statement") || strings.Contains(events, "New caller")
							all := strings.Count(events, "Caused by")
							t.Logf("want %v, got %q; %d causes in bold: %s", c.want, kind, all, events)
							if len(c.want) > 0 {
								expected++
							}
							switch {
							case c.none && attention:
								alarms++
								bold += all
							case c.none:
							case kind != "" && slices.Contains(c.want, kind):
								named, right, bold = named+1, right+1, bold+1
							case kind != "":
								bold++
								t.Logf("WRONG: %s", kind)
							}
						})
					}
				})
			}
			lanes.Wait() // bounded by the time limit of the test
		}
		servers.Go(func() { t.Run(server, play) })
	}
	servers.Wait() // bounded by the time limit of the test
	t.Logf("%d scripts; of %d causes in bold %d are right; of %d causes %d are named; %d false alarms", ran, bold, right, expected, named, alarms)
	if ran > 10 && (20*right < 19*bold || 5*named < 4*expected) {
		t.Error("precision is below 0.95, or recall below 0.8")
	}
}

// playScript plays one script: some time of an application, the script, and the time until its cause is named, at most as
// long as before. It returns the kind of the main statement's cause, and the statements on the overview.
func playScript(t *testing.T, s *testmysql.Server, main string, play func(*testing.T, *played), want []string) (kind, events string) {
	must(t, s.Exec("DROP DATABASE IF EXISTS incidents"))
	i := startIncident(t, s)
	must(t, s.Exec(
		"CREATE TABLE incidents.goods LIKE incidents.orders", "INSERT INTO incidents.goods SELECT * FROM incidents.orders",
		"ALTER TABLE incidents.orders ADD INDEX unused (note(10))", "ANALYZE TABLE incidents.orders, incidents.goods",
	))
	driver, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &played{incident: i, s: s, driver: driver}
	t.Cleanup(func() {
		cancel()
		for _, stop := range slices.Backward(p.stops) {
			stop()
		}
	})
	tagged := strings.Contains(main, "id < 10 AND")
	if tagged {
		p.calls(p.db, 50, main+" /*release='4.1'*/")
	}
	const steady = "SELECT id FROM goods WHERE id = 3" // its calls are the clock
	p.calls(p.db, 100, steady)
	for _, text := range []string{steadyText, mainText, otherText} {
		p.calls(p.db, 60, text)
	}
	if strings.HasPrefix(main, "UPDATE") {
		p.calls(p.db, 60, main)
	}
	clock := fmt.Sprintf(`sum(tare_queries_total{digest=%q})`, digestOn(t, p.db, steady))
	passed := func() float64 {
		v, _ := promValue(t, p.tare, clock)
		return v
	}
	began := time.Now().UTC().Add(3 * time.Second)
	eventually(t, "calls before the onset", func() bool { return passed() >= 3000 })
	play(t, p)
	onset := passed()
	path := "/api/v1/incidents/" + digestOn(t, p.db, main) + "?from=" + url.QueryEscape(began.Format(time.RFC3339))
	testwait.Until(t, "the cause, or calls since the onset", func() bool {
		var card struct {
			CauseKind string `json:"cause_kind"`
		}
		if text, ok := read(t, p.http+path); ok {
			must(t, json.Unmarshal([]byte(text), &card))
		}
		kind = card.CauseKind
		return slices.Contains(want, kind) || passed() >= onset+2500
	})
	body, _ := read(t, p.http+"/?from="+url.QueryEscape(began.Format(time.RFC3339)))
	if _, after, ok := strings.Cut(body, `<ul class="events">`); ok {
		events, _, _ = strings.Cut(after, "</ul>")
	}
	return kind, events
}

// digestOn returns the digest of a statement on the server behind a database.
func digestOn(t *testing.T, db *sql.DB, text string) string {
	var version string
	must(t, db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version))
	var d sqldigest.Digester
	return d.Digest([]byte(text), sqldigest.Mode(0).WithServer(sqldigest.ParseServer(version))).String()
}

// read returns the body of a successful request.
func read(t *testing.T, url string) (string, bool) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	req.Header.Set("Accept", "text/html")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(text), resp.StatusCode == http.StatusOK
}
