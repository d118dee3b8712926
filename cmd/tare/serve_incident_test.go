package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/sqldigest"
)

// An incident is a gateway in front of a server, with clients that call statements until the test ends.
type incident struct {
	*localGateway
	server *testmysql.Server
	db     *sql.DB
}

// onIncidents runs a test on MariaDB and MySQL.
func onIncidents(t *testing.T, test func(t *testing.T, i *incident)) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			testmysql.SkipIfOff(t)
			s, err := testmysql.New(append(opts, testmysql.WithPerformanceSchema(), testmysql.WithArgs("--innodb-lock-wait-timeout=600"))...)
			if errors.Is(err, testmysql.ErrNoMySQL) {
				t.Skip(err)
			}
			must(t, err)
			t.Cleanup(func() { must(t, s.Close()) })
			must(t, s.Exec(
				"CREATE TABLE orders (id INT PRIMARY KEY, customer INT, note VARCHAR(100), KEY k (customer))",
				"INSERT INTO orders SELECT n, n % 5000, REPEAT('x', 100) FROM (WITH RECURSIVE x AS (SELECT 1 n UNION ALL SELECT n + 1 FROM x WHERE n < 1000) SELECT n FROM x) y",
				"INSERT INTO orders SELECT id + 1000, customer + 1000, note FROM orders", "INSERT INTO orders SELECT id + 2000, customer + 2000, note FROM orders",
				"INSERT INTO orders SELECT id + 4000, customer + 4000, note FROM orders", "INSERT INTO orders SELECT id + 8000, customer + 8000, note FROM orders",
				"ANALYZE TABLE orders",
			))
			dir := t.TempDir()
			must(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o700))
			account := s.Config(testmysql.RootUser)
			g, err := startLocal(t, dir, s.Addr, "control", "mysql://"+testmysql.RootUser+":"+testmysql.Password+"@"+s.Addr, "history-interval", "1s")
			must(t, err)
			account.Addr, account.DBName = g.mysql, testmysql.DefaultSchema
			db, err := sql.Open("mysql", account.FormatDSN())
			must(t, err)
			t.Cleanup(func() {
				_ = db.Close()
				must(t, g.stop())
			})
			test(t, &incident{g, s, db})
		})
	}
}

// clients call a statement at once. A single client is always busy on a slow machine, where longer calls would not
// increase its load.
const clients = 8

// load calls a statement 100 times per second until the returned function is called.
func (i *incident) load(t *testing.T, text string, args ...any) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	for range clients {
		calling.Go(func() {
			pause := time.NewTicker(clients * 10 * time.Millisecond) // longer calls increase the load
			defer pause.Stop()
			for ctx.Err() == nil {
				if err := i.call(ctx, text, args...); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				select {
				case <-ctx.Done():
				case <-pause.C:
				}
			}
		})
	}
	return func() {
		cancel()
		testwait.Group(t, "the clients' end", &calling)
	}
}

// call runs a query and reads its rows.
func (i *incident) call(ctx context.Context, text string, args ...any) error {
	rows, err := i.db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}

// digestOf returns the digest of a statement as computed by the gateway.
func (i *incident) digestOf(t *testing.T, text string) string {
	t.Helper()
	var version string
	must(t, i.db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version))
	var d sqldigest.Digester
	return d.Digest([]byte(text), sqldigest.Mode(0).WithServer(sqldigest.ParseServer(version))).String()
}

// TestDroppedIndex drops an index under load: the page of the statement has the schema change and both plans.
func TestDroppedIndex(t *testing.T) {
	onIncidents(t, func(t *testing.T, i *incident) {
		text := "SELECT * FROM orders WHERE customer = ?"
		began := time.Now().UTC().Format(time.RFC3339)
		stop := i.load(t, text, 7)
		path := "/query/" + i.digestOf(t, text) + "?from=now-15m"
		page := func(wants ...string) func() (string, bool) {
			return func() (string, bool) {
				body := i.page(t, path)
				for _, want := range wants {
					if !strings.Contains(body, want) {
						return body, false
					}
				}
				return "", true
			}
		}
		testwait.UntilState(t, "the plan, and the indexes of the table", page("orders ref by k", "At the server", "<code>k (customer), about"))
		card := "/api/v1/incidents/" + i.digestOf(t, text) + "?from=" + began
		testwait.Until(t, "calls before the change", func() bool { // an eighth of the range, no matter how busy the machine is
			var now struct{ Affected []struct{ Calls int } }
			must(t, json.Unmarshal([]byte(i.page(t, card)), &now))
			return len(now.Affected) > 0 && now.Affected[0].Calls >= 1000
		})
		_, err := i.db.ExecContext(t.Context(), "ALTER TABLE orders DROP INDEX k")
		must(t, err)
		testwait.UntilState(t, "the other plan", page("<h3>Before</h3>", "orders ref by k", "<h3>After</h3>", "orders full scan", "ALTER TABLE", "Plan changed"))
		testwait.UntilState(t, "the incident card", func() (string, bool) {
			body := i.page(t, card)
			for _, want := range []string{`"rising":true`, "heavier since", "Caused by ALTER TABLE", "DROP INDEX", "by root", "plan changed", "index k was used before", `"cause_kind":"ddl"`, `"plan_before":["orders ref by k`, `"plan_after":["orders full scan`} {
				if !strings.Contains(body, want) {
					return want + ": " + body, false
				}
			}
			return "", true
		})
		stop()
		if metrics := i.page(t, "/metrics"); !strings.Contains(metrics, "tare_plan_changes_total 1") {
			t.Error("the change is not counted")
		}
	})
}

// TestDeployedQuery reports a deployment before the first call of a new statement: the overview names the
// deployment as its cause.
func TestDeployedQuery(t *testing.T) {
	onIncidents(t, func(t *testing.T, i *incident) {
		stop := i.load(t, "SELECT COUNT(*) FROM orders WHERE customer = ?", 7)
		testwait.Until(t, "the statement of before", func() bool { return strings.Contains(i.page(t, "/api/v1/statements"), "COUNT") })
		began := time.Now().UTC().Add(time.Second).Format(time.RFC3339) // later than its first call
		testwait.UntilState(t, "the time of the range", func() (string, bool) {
			body := i.page(t, "/?from="+began)
			return body, strings.Contains(body, "COUNT")
		})
		resp, err := http.Post(i.http+"/api/v1/events", "application/json", strings.NewReader(`{"kind": "deploy", "title": "shop 4.2"}`))
		must(t, err)
		must(t, resp.Body.Close())
		more := i.load(t, "SELECT note FROM orders WHERE id = ?", 5)
		testwait.UntilState(t, "the new statement and its cause", func() (string, bool) {
			body := i.page(t, "/?from="+began)
			at := strings.Index(body, "New statement")
			return body, at >= 0 && strings.Contains(body[at:], "Caused by shop 4.2")
		})
		more()
		stop()
	})
}

// TestLockPileUp has one client hold a row lock, and then a metadata lock, that others wait for: the overview and the
// incident card of a waiting statement name its session while it holds the lock.
func TestLockPileUp(t *testing.T) {
	onIncidents(t, func(t *testing.T, i *incident) {
		must(t, i.server.Exec("UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'",
			"UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_statements_current'"))
		const text = "UPDATE orders SET note = 'x' WHERE id = 5"
		var stops []func()
		for range 3 {
			stops = append(stops, i.load(t, text))
		}
		testwait.Until(t, "the statement of before", func() bool { return strings.Contains(i.page(t, "/api/v1/statements"), "UPDATE") })
		for kind, holds := range map[string]string{"row": "SELECT note FROM orders WHERE id = 5 FOR UPDATE", "metadata": "LOCK TABLES orders WRITE"} {
			conn, err := i.db.Conn(t.Context())
			must(t, err)
			var id int
			must(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
			if kind == "row" {
				_, err = conn.ExecContext(t.Context(), "BEGIN")
				must(t, err)
			}
			_, err = conn.ExecContext(t.Context(), holds)
			must(t, err)
			holder := fmt.Sprintf("onnection %d (%s from 127.0.0.1:", id, testmysql.RootUser)
			link := ""
			testwait.UntilState(t, "the holder of a "+kind+" lock on the overview", func() (string, bool) {
				body := i.page(t, "/")
				before, rest, found := strings.Cut(body, holder)
				if !found || !strings.Contains(rest, " holds a "+kind+" lock on test.orders") {
					return body, false
				}
				link = before[strings.LastIndex(before, `href="`)+len(`href="`):]
				link, _, _ = strings.Cut(link, `"`)
				return body, strings.HasPrefix(link, "/incident/")
			})
			testwait.UntilState(t, "the holder on the incident card", func() (string, bool) {
				body := i.page(t, link)
				for _, want := range []string{"<strong>C" + holder, "sessions wait, up to", "test.orders", "UPDATE"} {
					if !strings.Contains(body, want) {
						return want + ": " + body, false
					}
				}
				return "", true
			})
			var card struct {
				LockWaits []struct {
					Connection int
					Kind, Text string
					Waiting    int
				} `json:"lock_waits"`
			}
			must(t, json.Unmarshal([]byte(i.page(t, "/api/v1/incidents/"+i.digestOf(t, text))), &card))
			if w := card.LockWaits; len(w) == 0 || w[0].Connection != id || w[0].Kind != kind || w[0].Waiting < 2 || !strings.Contains(w[0].Text, "orders") {
				t.Errorf("the card is %+v", card)
			}
			_, err = conn.ExecContext(t.Context(), map[string]string{"row": "ROLLBACK", "metadata": "UNLOCK TABLES"}[kind])
			must(t, errors.Join(err, conn.Close()))
		}
		for _, stop := range stops {
			stop()
		}
		if events := i.page(t, "/api/v1/events"); !strings.Contains(events, `"kind":"lock"`) || !strings.Contains(events, "held a row lock on test.orders") {
			t.Errorf("the events are %s", events)
		}
	})
}
