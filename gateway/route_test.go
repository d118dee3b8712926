package gateway_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// pair is a gateway in front of two servers, each with the schema shop and a table of notes.
type pair struct {
	*rig
	servers [2]*testmysql.Server
	saved   atomic.Pointer[string]
}

const pairTables = "CREATE TABLE shop.note (id BIGINT PRIMARY KEY, client INT, body VARCHAR(100))"

func startPair(t *testing.T, change func(*gateway.Options)) *pair {
	t.Helper()
	p := &pair{}
	for i := range p.servers {
		p.servers[i] = testmysql.Start(t)
		must(t, p.servers[i].Exec("CREATE DATABASE shop", pairTables))
	}
	p.rig = startGateway(t, p.servers[0].Addr, func(o *gateway.Options) {
		o.Standby = &gateway.Backend{Addr: p.servers[1].Addr}
		o.Password = func(user string) (string, bool) { return testmysql.Password, user == testmysql.AppUser }
		o.SaveRoute = func(addr string) error { p.saved.Store(&addr); return nil }
		if change != nil {
			change(o)
		}
	})
	return p
}

// open opens a database handle that reaches the schema shop through the gateway.
func (p *pair) open(t *testing.T, change func(*mysql.Config)) *sql.DB {
	t.Helper()
	cfg := p.servers[0].Config(testmysql.AppUser)
	cfg.Addr, cfg.DBName = p.addr, "shop"
	if change != nil {
		change(cfg)
	}
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// session opens one connection through the gateway, which waits for its first command: a pause that starts
// during the login would not count it.
func (p *pair) session(t *testing.T) *mysqlconn.Client {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
		Addr: p.addr, User: testmysql.AppUser, Password: testmysql.Password, Database: "shop", TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true},
	})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	testwait.Until(t, "the session to finish its login", func() bool { return p.loggedIn(c.ConnectionID) })
	return c
}

// loggedIn reports whether the session greeted with this number has completed its login.
func (r *rig) loggedIn(greeted uint32) bool {
	return slices.ContainsFunc(r.SessionStates(), func(s gateway.SessionState) bool { return s.Greeted == greeted && s.LoggedIn })
}

func (p *pair) mustHold(t *testing.T, d time.Duration) string {
	t.Helper()
	token, _, err := p.Pause(t.Context(), d)
	must(t, err)
	return token
}

func (p *pair) mustSwitch(t *testing.T, to switchover.Side) {
	t.Helper()
	_, _, err := p.Switch(t.Context(), p.mustHold(t, gateway.MaxPause), to, false)
	must(t, err)
}

// port returns the port of the session's server.
func port(t *testing.T, c *mysqlconn.Client) string {
	t.Helper()
	return value(t, c, "SELECT @@port")
}

// value returns the single value of a query.
func value(t *testing.T, c *mysqlconn.Client, query string) (v string) {
	t.Helper()
	_, err := c.Query(t.Context(), query, func(row mysqlwire.TextRow) error { v = string(row[0]); return nil })
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// TestSwitchUnderLoad has clients of several kinds write while the sessions switch to the standby and back,
// repeatedly. No client receives an error, and each acknowledged write is on exactly one side.
func TestSwitchUnderLoad(t *testing.T) {
	p := startPair(t, nil)
	var stop atomic.Bool
	var acknowledged atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for client := range 8 {
		db := p.open(t, func(c *mysql.Config) { c.InterpolateParams = client%2 == 0 })
		db.SetMaxOpenConns(1)
		wg.Go(func() {
			if err := writeNotes(db, client, &stop, &acknowledged); err != nil {
				errs <- fmt.Errorf("client %d: %w", client, err)
			}
		})
	}
	load := func() {
		t.Helper()
		before := acknowledged.Load()
		testwait.Until(t, "load between the switches", func() bool { return acknowledged.Load() >= before+50 || len(errs) > 0 })
	}
	const switches = 20
	to := switchover.Standby
	for range switches {
		load()
		token, waited, err := p.Pause(t.Context(), gateway.MaxPause)
		must(t, err)
		moved, _, err := p.Switch(t.Context(), token, to, false)
		must(t, err)
		t.Logf("to the %s: quiet after %v, %d sessions moved", to, waited, moved)
		to = 1 - to
	}
	load()
	stop.Store(true)
	testwait.Group(t, "the writers to stop", &wg)
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	var total int64
	for _, s := range p.servers {
		n := count(t, s)
		if n == 0 {
			t.Errorf("%s has no rows after %d switches", s.Addr, switches)
		}
		total += n
	}
	if total != acknowledged.Load() {
		t.Errorf("%d rows on both sides, %d were acknowledged", total, acknowledged.Load())
	}
}

// writeNotes writes distinct rows until stop: by a statement that is prepared once, by statements with
// arguments, and two in a transaction.
func writeNotes(db *sql.DB, client int, stop *atomic.Bool, acknowledged *atomic.Int64) error {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	const insert = "INSERT INTO note (id, client, body) VALUES (?, ?, ?)"
	prepared, err := conn.PrepareContext(ctx, insert)
	if err != nil {
		return err
	}
	defer prepared.Close()
	id := int64(client) << 32
	for n := 0; !stop.Load(); n++ {
		id++
		switch n % 3 {
		case 0:
			_, err = prepared.ExecContext(ctx, id, client, "prepared")
		case 1:
			_, err = conn.ExecContext(ctx, insert, id, client, "with arguments")
		case 2:
			var tx *sql.Tx
			if tx, err = conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted}); err != nil {
				return fmt.Errorf("begin: %w", err)
			}
			_, err = tx.Exec(insert, id, client, "first of two")
			id++
			if err == nil {
				_, err = tx.Exec(insert, id, client, "second of two")
			}
			if err = errors.Join(err, tx.Commit()); err == nil {
				acknowledged.Add(1)
			}
		}
		if err != nil {
			return fmt.Errorf("write %d: %w", n, err)
		}
		acknowledged.Add(1)
	}
	return nil
}

func count(t *testing.T, s *testmysql.Server) (n int64) {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	must(t, db.QueryRow("SELECT COUNT(*) FROM shop.note").Scan(&n))
	return n
}

// TestRouteNotSaved makes saving the route fail, before or after the file was written: sessions stay, and the
// saved route is their server's, unless that cannot be written either, which is reported.
func TestRouteNotSaved(t *testing.T) {
	var p *pair
	var fails int  // number of next writes that fail
	var after bool // they fail after writing the file
	p = startPair(t, func(o *gateway.Options) {
		save := o.SaveRoute
		o.SaveRoute = func(addr string) error {
			if fails == 0 {
				return save(addr)
			}
			fails--
			if after {
				_ = save(addr)
			}
			return errors.New("no space")
		}
	})
	c := p.session(t)
	here := port(t, c)
	for _, tt := range []struct {
		fails int
		after bool
		saved string // empty: unchanged
		want  string
	}{
		{1, false, p.servers[0].Addr, "nothing was switched: write the route down: no space"},
		{1, true, p.servers[0].Addr, "nothing was switched: write the route down: no space"},
		{2, true, p.servers[0].Addr, "; nor could it be written that " + p.servers[0].Addr + " stays: mend the data directory"},
		{2, false, "", "; nor could it be written that " + p.servers[0].Addr + " stays: mend the data directory"},
	} {
		p.saved.Store(new(string))
		fails, after = tt.fails, tt.after
		_, _, err := p.Switch(t.Context(), p.mustHold(t, gateway.MaxPause), switchover.Standby, false)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v", tt, err)
		}
		if got := *p.saved.Load(); got != tt.saved {
			t.Errorf("%+v: it is written that sessions are at %q", tt, got)
		}
		if got := port(t, c); got != here {
			t.Errorf("%+v: the session went from port %s to %s", tt, here, got)
		}
	}
	p.mustSwitch(t, switchover.Standby)
	if got := port(t, c); got == here || *p.saved.Load() != p.servers[1].Addr {
		t.Errorf("after a switch that could be written: port %s, %q is written", got, *p.saved.Load())
	}
}
