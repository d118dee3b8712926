package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/querylog"
)

// A cutoverDrill is two servers behind a gateway, and clients that write through it.
type cutoverDrill struct {
	servers  [2]*testmysql.Server
	gateway  *gateway.Server
	addr     string // of the gateway
	api      *httptest.Server
	switches atomic.Int32                         // requested switches
	around   func(http.Handler, int) http.Handler // wraps the handler of a switch, by number from 1; nil: no wrapper
	silent   atomic.Bool                          // the API closes every connection without a response
	acked    [4]atomic.Int64                      // rows that were acknowledged to each client
	control  string
}

func newCutoverDrill(t *testing.T) *cutoverDrill {
	t.Helper()
	d := &cutoverDrill{control: filepath.Join(t.TempDir(), "control.sock")}
	for i := range d.servers {
		d.servers[i] = testmysql.Start(t, testmysql.WithBinlog())
		must(t, d.servers[i].Exec("CREATE DATABASE shop"))
	}
	must(t, d.servers[0].Exec(
		"CREATE TABLE shop.log (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT NOT NULL, n INT NOT NULL, KEY client (client, n))",
		"CREATE TABLE shop.counter (client INT PRIMARY KEY, n INT NOT NULL)",
		"INSERT INTO shop.counter VALUES (0, 0), (1, 0), (2, 0), (3, 0)",
		"CREATE TABLE shop.ids (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT)",
		"INSERT INTO shop.log (client, n) SELECT 99, seq FROM seq_1_to_2000"))
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 4 << 20})
	must(t, err)
	log, err := querylog.New(querylog.Options{RingBytes: -1})
	must(t, err)
	d.gateway, err = gateway.New(gateway.Options{
		Backend: gateway.Backend{Addr: d.servers[0].Addr}, Standby: &gateway.Backend{Addr: d.servers[1].Addr},
		Password:  func(user string) (string, bool) { return testmysql.Password, user == testmysql.AppUser },
		SaveRoute: func(string) error { return nil },
		Planner:   planner, Log: log, Diag: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- d.gateway.Serve(l) }()
	d.api = httptest.NewServer(http.HandlerFunc(d.serveAPI))
	t.Cleanup(func() {
		d.api.Close()
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Limit)
		defer cancel()
		d.gateway.Shutdown(ctx)
		must(t, testwait.Receive(t, "Serve to return", served))
		must(t, log.Close(ctx))
	})
	return d
}

// serveAPI is the gateway's API with injected faults.
func (d *cutoverDrill) serveAPI(w http.ResponseWriter, r *http.Request) {
	if d.silent.Load() {
		hangUp(w)
		return
	}
	h := d.gateway.RouteHandler()
	if strings.HasSuffix(r.URL.Path, "/switch") && d.around != nil {
		h = d.around(h, int(d.switches.Add(1)))
	}
	h.ServeHTTP(w, r)
}

// hangUp closes the client's connection without a response.
func hangUp(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

// write has clients write until ctx is done: a row and an update in a transaction each, every third one
// prepared. Acknowledged commits are counted; an error ends the test.
func (d *cutoverDrill) write(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var writing sync.WaitGroup
	for client := range d.acked {
		cfg := d.servers[0].Config(testmysql.AppUser)
		cfg.Addr, cfg.DBName, cfg.InterpolateParams = d.addr, "shop", client%2 == 0
		connector, err := mysql.NewConnector(cfg)
		must(t, err)
		writing.Go(func() {
			db := sql.OpenDB(connector)
			defer db.Close()
			pace := time.NewTicker(2 * time.Millisecond) // at full speed the copy falls behind on a busy machine
			defer pace.Stop()
			for ctx.Err() == nil {
				<-pace.C
				n := d.acked[client].Load() + 1
				if err := d.writeOne(db, client, n); err != nil {
					t.Errorf("client %d, transaction %d: %v", client, n, err)
					return
				}
				d.acked[client].Store(n)
			}
		})
	}
	return func() { cancel(); writing.Wait() }
}

func (d *cutoverDrill) writeOne(db *sql.DB, client int, n int64) error {
	if n%3 == 0 { // without an explicit transaction
		if _, err := db.Exec("INSERT INTO log (client, n) VALUES (?, ?)", client, n); err != nil {
			return err
		}
		_, err := db.Exec("UPDATE counter SET n = ? WHERE client = ?", n, client)
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Exec("INSERT INTO log (client, n) VALUES (?, ?)", client, n); err != nil {
		return err
	}
	if _, err := tx.Exec("UPDATE counter SET n = n + 1 WHERE client = ?", client); err != nil {
		return err
	}
	return tx.Commit()
}

// more waits until each client has written n more transactions.
func (d *cutoverDrill) more(t *testing.T, n int64) {
	t.Helper()
	for client := range d.acked {
		goal := d.acked[client].Load() + n
		testwait.Until(t, "the client's next transactions", func() bool { return d.acked[client].Load() >= goal || t.Failed() })
	}
}

func (d *cutoverDrill) account(server int) mysqlconn.Config {
	return mysqlconn.Config{Addr: d.servers[server].Addr, User: testmysql.RootUser, Password: testmysql.Password}
}

func (d *cutoverDrill) options(observe func(telemetry.Event)) copier.Options {
	return copier.Options{
		From: copier.FromServer(d.account(0)), To: d.account(1), Follow: true, Control: d.control, Observe: observe,
		Tables: []tabledef.Spec{{Schema: "shop", Name: "log"}, {Schema: "shop", Name: "counter"}, {Schema: "shop", Name: "ids"}}, Tuning: copier.Tuning{Patience: 2 * time.Second},
		Cutover: &cutover.Options{
			Gateway: gatewayclient.Gateway{URL: d.api.URL}, Back: d.account(0), Lag: time.Second, MaxPause: 10 * time.Second, Window: time.Hour,
		},
	}
}

// sums returns the rows on a server that clients wrote, in summary.
func (d *cutoverDrill) sums(t *testing.T, server int) (all string) {
	t.Helper()
	db, err := sql.Open("mysql", d.servers[server].DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	for client := range d.acked {
		var rows, different, most, counter int64
		must(t, db.QueryRow("SELECT COUNT(*), COUNT(DISTINCT n), COALESCE(MAX(n), 0) FROM shop.log WHERE client = ?", client).Scan(&rows, &different, &most))
		must(t, db.QueryRow("SELECT n FROM shop.counter WHERE client = ?", client).Scan(&counter))
		all += fmt.Sprintf("client %d: %d rows, %d different, up to %d, counter %d\n", client, rows, different, most, counter)
	}
	return all
}

// value returns the number that a query returns on a server.
func (d *cutoverDrill) value(t *testing.T, server int, query string) (n int64) {
	t.Helper()
	db, err := sql.Open("mysql", d.servers[server].DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	must(t, db.QueryRow(query).Scan(&n))
	return n
}

// wanted is the result of sums if every acknowledged row exists once.
func (d *cutoverDrill) wanted() (all string) {
	for client := range d.acked {
		n := d.acked[client].Load()
		all += fmt.Sprintf("client %d: %d rows, %d different, up to %d, counter %d\n", client, n, n, n, n)
	}
	return all
}

// TestCutover switches writing clients from one server to the other while a copy follows. The first switch is
// refused, and the response to the second, which succeeds, is lost. In the third drill the API does not
// respond after that, so that the copy ends without knowing the outcome, and a second run resumes. No client
// receives an error; every acknowledged write is on both servers exactly once.
func TestCutover(t *testing.T) {
	lost := func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(httptest.NewRecorder(), r)
		hangUp(w)
	}
	for name, around := range map[string]func(d *cutoverDrill) func(http.Handler, int) http.Handler{
		"plain": nil,
		"lost": func(*cutoverDrill) func(http.Handler, int) http.Handler {
			return func(h http.Handler, n int) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if n > 1 {
						lost(h, w, r)
						return
					}
					w.WriteHeader(http.StatusConflict)
					_, _ = w.Write([]byte(`{"error": "sessions are pinned"}`))
				})
			}
		},
		"unknown": func(d *cutoverDrill) func(http.Handler, int) http.Handler {
			return func(h http.Handler, _ int) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					d.silent.Store(true)
					lost(h, w, r)
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newCutoverDrill(t)
			if around != nil {
				d.around = around(d)
			}
			d.drill(t, name == "unknown", name == "lost")
		})
	}
}

func (d *cutoverDrill) drill(t *testing.T, ends, refused bool) {
	stop := d.write(t.Context(), t)
	defer stop()
	back := make(chan struct{}, 1) // the reverse stream has caught up
	refusals := atomic.Int32{}
	observe := func(e telemetry.Event) {
		if e.Kind == telemetry.EventFollow { // it uses an id without a row event
			if err := d.servers[0].Exec("START TRANSACTION", "INSERT INTO shop.ids VALUES (1000000, 0)", "ROLLBACK"); err != nil {
				t.Error(err)
			}
		}
		if e.Kind == telemetry.EventCutover {
			t.Log(e.Text)
			if strings.Contains(e.Text, "sessions are pinned") {
				refusals.Add(1)
			}
		}
		if e.Kind == telemetry.EventCaughtUp && strings.HasPrefix(e.Text, "back to the source: ") {
			back <- struct{}{}
		}
	}
	if ends {
		if _, err := copier.Run(t.Context(), d.options(observe)); err == nil || !strings.Contains(err.Error(), "position of the gateway's clients is unknown") {
			t.Fatalf("a run whose switch is not answered: %v", err)
		}
		d.more(t, 20) // at the target, without a copy to switch them back
		o := d.options(nil)
		o.Cutover = nil
		if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "clients may be on the target already") {
			t.Errorf("a run that would follow the source again: %v", err)
		}
		d.silent.Store(false)
		o = d.options(nil)
		o.Restart = true
		if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "option restart would empty the tables") {
			t.Errorf("a restart: %v", err)
		}
	}
	type result struct {
		report *copier.Report
		err    error
	}
	done := make(chan result, 1)
	go func() {
		report, err := copier.Run(t.Context(), d.options(observe))
		done <- result{report, err}
	}()
	select {
	case <-back:
	case r := <-done:
		t.Fatalf("it ended: %+v, %v", r.report, r.err)
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the reverse copy")
	}
	d.more(t, 50)
	stop()
	must(t, d.servers[1].Exec("INSERT INTO shop.ids (n) VALUES (1)"))
	if got := d.value(t, 1, "SELECT MAX(id) FROM shop.ids"); got != 1000001 {
		t.Errorf("the first id after the cutover is %d, want 1000001: the source has given out the one before", got)
	}
	must(t, d.servers[1].Exec("START TRANSACTION", "INSERT INTO shop.ids VALUES (2000000, 0)", "ROLLBACK"))
	control := control.NewClient(d.control)
	defer control.Close()
	status, err := control.Finish(t.Context())
	must(t, err)
	if status.Phase != telemetry.RunReversing {
		t.Errorf("the phase is %s", status.Phase)
	}
	r := testwait.Receive(t, "the copy to finish", done)
	must(t, r.err)
	for server, name := range []string{"source", "target"} {
		must(t, d.servers[server].Exec("INSERT INTO shop.ids (n) VALUES (1)"))
		if got := d.value(t, server, "SELECT MAX(id) FROM shop.ids"); got != 2000001 {
			t.Errorf("the first id after the reverse stream is %d in the %s, want 2000001: the target has given out the one before", got, name)
		}
	}
	if c := r.report.Cutover; c == nil || c.Phase != "done" || c.Reverse == nil || c.Reverse.Inserts < 200 {
		t.Errorf("report: %+v", c)
	}
	if refused != (refusals.Load() > 0) {
		t.Errorf("%d tries were refused", refusals.Load())
	}
	if route := d.gateway.Route(); route.Address != d.servers[1].Addr {
		t.Errorf("clients are at %s", route.Address)
	}
	for server := range d.servers {
		if got, want := d.sums(t, server), d.wanted(); got != want {
			t.Errorf("server %d has\n%swant\n%s", server, got, want)
		}
	}
	again, err := copier.Run(t.Context(), d.options(nil)) // no work is left
	if err != nil || again.Cutover.Phase != "done" {
		t.Errorf("a run after the last: %+v, %v", again, err)
	}
}
