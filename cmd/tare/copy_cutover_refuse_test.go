package main

import (
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// refused runs a cutover that must fail without switching clients.
func (d *cutoverDrill) refused(t *testing.T, o copier.Options, want string) {
	t.Helper()
	_, err := copier.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it ended with %v, want %q", err, want)
	}
	if at := d.gateway.Route().Address; at != d.servers[0].Addr {
		t.Fatalf("clients were switched to %s", at)
	}
}

// TestCutoverRefusals runs cutovers that are impossible: each error has the reason, and clients keep their
// server.
func TestCutoverRefusals(t *testing.T) {
	d := newCutoverDrill(t)
	third := testmysql.Start(t) // without a binary log
	part := d.options(nil)
	part.Tables = []tabledef.Spec{{Schema: "shop", Name: "log", Where: "client = 1"}}
	d.refused(t, part, "only a part of shop.log is copied")

	around := d.options(nil)
	around.From, around.To, around.Cutover.Back = copier.FromServer(d.account(1)), d.account(0), d.account(1)
	must(t, d.servers[1].Exec("CREATE TABLE shop.log (id INT PRIMARY KEY)"))
	around.Tables = []tabledef.Spec{{Schema: "shop", Name: "log", ToName: "other"}}
	d.refused(t, around, "clients are at the target already, and no cutover of this copy has brought them there")
	must(t, d.servers[1].Exec("DROP TABLE shop.log"))

	other := d.options(nil)
	other.To.Addr = third.Addr
	d.refused(t, other, "the target's changes could not go back to the source: where the binary log of "+third.Addr)
	other.Cutover.Window = 0
	d.refused(t, other, "they must be the same two servers; change the source and the target")

	must(t, d.servers[0].Exec("CREATE TRIGGER shop.tr BEFORE INSERT ON shop.counter FOR EACH ROW SET NEW.n = NEW.n"))
	d.refused(t, d.options(nil), "shop.counter has triggers (tr)")
	must(t, d.servers[0].Exec("DROP TRIGGER shop.tr"))
}

// through opens a persistent session through the gateway.
func (d *cutoverDrill) through(t *testing.T, statements ...string) *sql.Conn {
	t.Helper()
	cfg := d.servers[0].Config(testmysql.AppUser)
	cfg.Addr = d.addr
	db, err := sql.Open("mysql", cfg.FormatDSN())
	must(t, err)
	db.SetMaxIdleConns(-1) // closes idle connections
	t.Cleanup(func() { db.Close() })
	c, err := db.Conn(t.Context())
	must(t, err)
	for _, sql := range statements {
		_, err := c.ExecContext(t.Context(), sql)
		must(t, err)
	}
	return c
}

// TestCutoverWaits runs a cutover while there are sessions that cannot be switched, transactions that do not
// end and rows that differ; after its time limit, clients have their server and following continues.
func TestCutoverWaits(t *testing.T) {
	d := newCutoverDrill(t)
	o := d.options(nil)
	o.Cutover.Tries = 1
	pinned := d.through(t, "DO GET_LOCK('mine', 1)")
	d.refused(t, o, "where they were after as many tries as are allowed (1); the last one: the gateway refuses: ")
	must(t, pinned.Close())
	testwait.Until(t, "the end of the session that is pinned", func() bool { return len(d.gateway.Route().Pinned) == 0 })

	open := d.through(t, "BEGIN", "INSERT INTO shop.counter VALUES (7, 7)")
	o.Cutover.MaxPause = 100 * time.Millisecond
	d.refused(t, o, "were still within a statement or transaction")
	_, err := open.ExecContext(t.Context(), "COMMIT")
	must(t, err)
	must(t, open.Close())

	byHand := d.options(nil)
	byHand.Cutover.Gateway = gatewayclient.Gateway{}
	var steps strings.Builder
	var mu sync.Mutex
	byHand.Observe = func(e telemetry.Event) {
		if e.Kind != telemetry.EventCutover {
			return
		}
		mu.Lock()
		steps.WriteString(e.Text)
		mu.Unlock() // a finish is a separate event
		control := control.NewClient(d.control)
		defer control.Close()
		if _, err := control.Finish(t.Context()); err != nil {
			t.Error(err)
		}
	}
	report, err := copier.Run(t.Context(), byHand)
	must(t, err)
	if report.Cutover != nil || report.Follow.Position == "" || !strings.Contains(steps.String(), "have clients connect to "+d.servers[1].Addr) {
		t.Errorf("without a gateway: %+v\n%s", report, &steps)
	}

	must(t, d.servers[1].Exec("UPDATE shop.counter SET n = 8 WHERE client = 7"))
	compared := d.options(nil)
	compared.Verify = true
	report, err = copier.Run(t.Context(), compared)
	must(t, err)
	if report.Mismatches() != 1 || report.Cutover.Phase != "" || d.gateway.Route().Address != d.servers[0].Addr {
		t.Errorf("with a row that differs: %d mismatches, %+v", report.Mismatches(), report.Cutover)
	}

	// Compared and equal: clients are switched; without a window nothing is written to the source.
	must(t, d.servers[0].Exec("DROP DATABASE _tare")) // of the attempts with a window, which check their privileges there
	fresh := d.options(nil)
	fresh.Restart, fresh.Verify, fresh.Cutover.Window = true, true, 0
	report, err = copier.Run(t.Context(), fresh)
	must(t, err)
	if report.Mismatches() != 0 || report.Cutover.Phase != "done" || report.Cutover.Reverse != nil || d.gateway.Route().Address != d.servers[1].Addr {
		t.Errorf("equal: %+v", report.Cutover)
	}
	db, err := sql.Open("mysql", d.servers[0].DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	var schemas int
	must(t, db.QueryRow("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '_tare'").Scan(&schemas))
	if schemas != 0 {
		t.Error("the source has a schema _tare")
	}
}

// TestCutoverClosesPinned runs a cutover while there are sessions that cannot be switched: one becomes idle
// within the time limit, the other is closed, and clients are switched.
func TestCutoverClosesPinned(t *testing.T) {
	d := newCutoverDrill(t)
	letsGo := d.through(t, "DO GET_LOCK('mine', 1)")
	stays := d.through(t, "CREATE TEMPORARY TABLE shop.tmp (id INT)")
	o := d.options(func(e telemetry.Event) {
		if e.Kind == telemetry.EventCutover && strings.HasPrefix(e.Text, "2 sessions cannot be switched, and are closed in 300ms unless they let go: connection ") {
			if err := letsGo.Close(); err != nil {
				t.Error(err)
			}
			testwait.Until(t, "the session that lets go to end", func() bool { return len(d.gateway.Route().Pinned) <= 1 })
		}
	})
	o.Cutover.ClosePinned, o.Cutover.Window = 300*time.Millisecond, 0
	// With other server names than the gateway's.
	named := func(client int) mysqlconn.Config {
		cfg := d.account(client)
		cfg.Addr = strings.Replace(cfg.Addr, "127.0.0.1", "localhost", 1)
		return cfg
	}
	o.From, o.To, o.Cutover.Back = copier.FromServer(named(0)), named(1), named(0)
	report, err := copier.Run(t.Context(), o)
	must(t, err)
	if c := report.Cutover; c.Phase != "done" || c.Closed != 1 || c.Tries != 0 || d.gateway.Route().Address != d.servers[1].Addr {
		t.Errorf("%+v", c)
	}
	var refused *mysql.MySQLError
	if _, err := stays.ExecContext(t.Context(), "INSERT INTO shop.tmp VALUES (1)"); !errors.As(err, &refused) || refused.Number != 1053 || !strings.Contains(refused.Message, "a temporary table") {
		t.Errorf("the session that was closed: %v", err)
	}
}

// TestCutoverSwitchedBack switches clients back while changes flow back: these do not overwrite the clients'
// writes.
func TestCutoverSwitchedBack(t *testing.T) {
	d := newCutoverDrill(t)
	o := d.options(func(e telemetry.Event) {
		if e.Kind == telemetry.EventCaughtUp && strings.HasPrefix(e.Text, "back to the source: ") {
			go d.switchTo(t, "backend")
		}
	})
	_, err := copier.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "clients are at the source again") {
		t.Fatalf("it ended with %v", err)
	}
	if _, err := copier.Run(t.Context(), d.options(nil)); err == nil || !strings.Contains(err.Error(), "clients are at the source again") {
		t.Errorf("a second run ended with %v", err)
	}
	fresh := d.options(nil)
	fresh.Restart, fresh.Cutover.Window = true, time.Second
	report, err := copier.Run(t.Context(), fresh)
	if err != nil || report.Cutover.Phase != "done" || report.Cutover.Reverse == nil {
		t.Errorf("begun anew: %+v, %v", report, err)
	}
}

// switchTo switches like an operator with curl.
func (d *cutoverDrill) switchTo(t *testing.T, side string) {
	token, _, err := d.gateway.Pause(t.Context(), gateway.MaxPause)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := http.Post(d.api.URL+"/api/v1/route/switch", "application/json", strings.NewReader(`{"token": "`+token+`", "to": "`+side+`"}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("switch: %v, %v", resp, err)
	}
	if err == nil {
		_ = resp.Body.Close()
	}
}
