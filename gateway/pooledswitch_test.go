package gateway_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A sharedPair is a gateway whose clients share connections, in front of a server and a standby, each with a table.
type sharedPair struct {
	*rig
	servers [2]*testmysql.Server
}

// startSharedPair starts two servers of a kind, and a gateway with n connections per user.
func startSharedPair(t *testing.T, n int, kind []testmysql.Option, standby ...testmysql.Option) *sharedPair {
	t.Helper()
	servers := [2]*testmysql.Server{testmysql.StartOrSkip(t, kind...), testmysql.StartOrSkip(t, append(standby, kind...)...)}
	for _, s := range servers {
		must(t, s.Exec("create database shop", "create table shop.t (id int auto_increment primary key, v varchar(20)) character set utf8mb4"))
	}
	return sharedPairOf(t, n, servers, nil)
}

// sharedPairOf starts a gateway in front of two servers, which persists its route by a function.
func sharedPairOf(t *testing.T, n int, servers [2]*testmysql.Server, save func(addr string) error) *sharedPair {
	t.Helper()
	p := &sharedPair{servers: servers}
	p.rig = startGateway(t, p.servers[0].Addr, func(o *gateway.Options) {
		o.Loops, o.Observers, o.SaveRoute = 1, nil, save
		o.Backend.Key = mysqlconn.ServerKey{Request: true}
		o.KillQuery = func(string, uint32) error { return context.Canceled }
		password := func(user string) (string, bool) { return testmysql.Password, user == testmysql.AppUser }
		o.Pool = &gateway.PoolOptions{Max: n, Wait: time.Minute, Password: password}
		o.Standby, o.Password = &gateway.Backend{Addr: p.servers[1].Addr, Key: o.Backend.Key}, password
	})
	return p
}

// dial returns a client that has logged in: a pause that starts during the login would not count it.
func (p *sharedPair) dial(t *testing.T, change func(*mysqlconn.Config)) *mysqlconn.Client {
	t.Helper()
	c := dialPooled(t, p.addr, "shop", change)
	testwait.Until(t, "the session to finish its login", func() bool { return p.loggedIn(c.ConnectionID) })
	return c
}

func (p *sharedPair) mustSwitch(t *testing.T, to switchover.Side) {
	t.Helper()
	token, _, err := p.Pause(t.Context(), gateway.MaxPause)
	must(t, err)
	_, _, err = p.Switch(t.Context(), token, to, false)
	must(t, err)
}

// port returns the port of a server.
func (p *sharedPair) port(side switchover.Side) string {
	_, port, _ := net.SplitHostPort(p.servers[side].Addr)
	return port
}

var serverKinds = map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}}

// TestSharedSwitch switches clients with different settings that share connections to the standby and back: settings, default schemas,
// LAST_INSERT_ID() and prepared statements follow them, and no connection to the server before stays.
func TestSharedSwitch(t *testing.T) {
	for name, kind := range serverKinds {
		t.Run(name, func(t *testing.T) {
			p := startSharedPair(t, 2, kind)
			t.Run("after one that failed", func(t *testing.T) { switchFails(t, p.servers, name == "MySQL") })
			must(t, p.servers[0].Exec("alter table shop.t auto_increment = 700"))
			plain := p.dial(t, nil)
			tuned := p.dial(t, nil)
			_, err := tuned.Exec(t.Context(), "set names latin1, time_zone = '+03:00', sql_mode = 'ANSI_QUOTES', autocommit = 0")
			must(t, err)
			wary := p.dial(t, nil)
			st, err := plain.Prepare(t.Context(), []byte("select v, @@port from t where id = ?"))
			must(t, err)
			_, err = plain.Exec(t.Context(), "insert into t (v) values ('ü')")
			must(t, err)
			state := "select @@character_set_client, @@time_zone, @@sql_mode, @@autocommit, database()"
			before := strings.Join(one(t, tuned, state), "|")
			_, err = tuned.Exec(t.Context(), "commit")
			must(t, err)
			_, err = wary.Exec(t.Context(), "drop table if exists nowhere") // its warning keeps the connection
			must(t, err)
			must(t, p.servers[1].Exec("insert into shop.t (id, v) values (700, 'ü there')"))
			for _, side := range []switchover.Side{switchover.Standby, switchover.Backend} {
				p.mustSwitch(t, side)
				if got := one(t, wary, "select @@port")[0]; got != p.port(side) {
					t.Errorf("%v: a client with a warning is on the server with port %s", side, got)
				}
				if got := one(t, plain, "select last_insert_id()")[0]; got != "700" {
					t.Errorf("%v: LAST_INSERT_ID() is %s", side, got)
				}
				if got := strings.Join(one(t, tuned, state), "|"); got != before {
					t.Errorf("%v: the state is %s, was %s", side, got, before)
				}
				if got := one(t, tuned, "select @@port")[0]; got != p.port(side) {
					t.Errorf("%v: a client with settings is on the server with port %s", side, got)
				}
				_, err = tuned.Exec(t.Context(), "commit")
				must(t, err)
				var row string
				_, err := plain.Execute(t.Context(), st.StatementID, []mysqlwire.BinaryValue{{Data: []byte{0xBC, 2, 0, 0}, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLong}}}, func(b []byte) error { row = string(b); return nil })
				must(t, err)
				if strings.Contains(row, "there") != (side == switchover.Standby) {
					t.Errorf("%v: the prepared statement returned %q", side, row)
				}
				old := dialPooled(t, p.servers[1-side].Addr, "", func(c *mysqlconn.Config) { c.User = testmysql.RootUser })
				testwait.Until(t, "connections to the server before to be closed", func() bool {
					return one(t, old, "select count(*) from information_schema.processlist where user = '"+testmysql.AppUser+"'")[0] == "0"
				})
			}
		})
	}
}

// switchFails has clients with warnings, on connections that have set LAST_INSERT_ID() or not, and a switch that fails when all are
// ready: they keep their warnings, and their connections no longer than usual.
func switchFails(t *testing.T, servers [2]*testmysql.Server, mysql bool) {
	t.Helper()
	p := sharedPairOf(t, 3, servers, func(addr string) error {
		if addr == servers[switchover.Standby].Addr {
			return errors.New("no space left")
		}
		return nil
	})
	wary := map[string]*mysqlconn.Client{"insert into t (v) values (1), (repeat('x', 21))": p.dial(t, nil), "select cast('x' as signed)": p.dial(t, nil)}
	if mysql { // MariaDB is queried after an error, which removes it
		wary["select nothing"] = p.dial(t, nil)
	}
	for _, c := range wary {
		_, err := c.Exec(t.Context(), "set sql_mode = ''")
		must(t, err)
	}
	fails := func() {
		t.Helper()
		for sql, c := range wary {
			_, _ = c.Query(t.Context(), sql, func(mysqlwire.TextRow) error { return nil })
		}
		token, _, err := p.Pause(t.Context(), gateway.MaxPause)
		must(t, err)
		if _, _, err = p.Switch(t.Context(), token, switchover.Standby, false); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Fatalf("the switch: %v", err)
		}
	}
	testwait.Until(t, "clients to read their warnings in time", func() bool {
		fails()
		read := 0
		for _, c := range wary {
			_, err := c.Query(t.Context(), "show warnings", func(mysqlwire.TextRow) error { read++; return nil })
			if e, ok := errors.AsType[*mysqlconn.ServerError](err); err != nil && (!ok || e.Number != 1235) {
				t.Fatal(err)
			}
		}
		return read == len(wary)
	})
	for sql, c := range wary {
		got := one(t, c, "select @@port, last_insert_id()")
		if insert := strings.HasPrefix(sql, "insert"); got[0] != p.port(switchover.Backend) || (got[1] == "0") == insert {
			t.Errorf("after %s: port and LAST_INSERT_ID() %q", sql, got)
		}
	}
	fails()
	testwait.Until(t, "clients to return their connections", func() bool {
		return p.metric(t, "tare_pool_connections", "idle", testmysql.AppUser) == p.metric(t, "tare_pool_connections", "open", testmysql.AppUser)
	})
}

// TestSharedSwitchWaits pauses clients of which one has the only connection for its transaction, and another one waits for it.
func TestSharedSwitchWaits(t *testing.T) {
	p := startSharedPair(t, 1, nil)
	a, b := p.dial(t, nil), p.dial(t, nil)
	_, err := a.Exec(t.Context(), "begin")
	must(t, err)
	queued := make(chan error, 1)
	go func() {
		_, err := b.Exec(t.Context(), "insert into t (v) values ('queued')")
		queued <- err
	}()
	testwait.Until(t, "a client to wait", func() bool { return p.metric(t, "tare_pool_queue", testmysql.AppUser) == 1 })
	if _, _, err := p.Pause(t.Context(), 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "within a statement or transaction") {
		t.Errorf("a pause within a transaction: %v", err)
	}
	paused := make(chan string, 1)
	go func() {
		token, _, err := p.Pause(t.Context(), gateway.MaxPause)
		if err != nil {
			t.Errorf("pause: %v", err)
		}
		paused <- token
	}()
	testwait.Until(t, "the pause to start", func() bool { return p.Route().Stage != "open" })
	_, err = a.Exec(t.Context(), "commit")
	must(t, err)
	token := <-paused
	must(t, <-queued)
	_, _, err = p.Switch(t.Context(), token, switchover.Standby, false)
	must(t, err)
	if got := one(t, b, "select @@port")[0]; got != p.port(switchover.Standby) {
		t.Errorf("the client that waited is on the server with port %s", got)
	}
}

// TestSharedSwitchPinned refuses to switch a client that keeps its connection, with the reason, and closes it if that is requested.
func TestSharedSwitchPinned(t *testing.T) {
	p := startSharedPair(t, 3, nil)
	free := p.dial(t, nil)
	for sql, reason := range map[string]string{"set @a = 1": "user variables", "create temporary table x (a int)": "a temporary table"} {
		pinned := p.dial(t, nil)
		_, err := pinned.Exec(t.Context(), sql)
		must(t, err)
		token, _, err := p.Pause(t.Context(), gateway.MaxPause)
		must(t, err)
		side := 1 - p.side()
		if _, _, err = p.Switch(t.Context(), token, side, false); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("after %s: %v, want %q", sql, err, reason)
		}
		moved, closed, err := p.Switch(t.Context(), token, side, true)
		must(t, err)
		if moved != 1 || closed != 1 {
			t.Errorf("after %s: %d sessions moved, %d closed", sql, moved, closed)
		}
		_, err = pinned.Exec(t.Context(), "select 1")
		if err == nil || !strings.Contains(err.Error(), "1053") {
			t.Errorf("after %s: %v, want error 1053", sql, err)
		}
		if got := one(t, free, "select @@port")[0]; got != p.port(side) {
			t.Errorf("after %s: another client is on the server with port %s", sql, got)
		}
	}
}

func (p *sharedPair) side() switchover.Side {
	side, _ := p.Active()
	return side
}

// TestSharedSwitchRefused has a standby on which clients cannot continue: none is switched, and each works where it was.
func TestSharedSwitchRefused(t *testing.T) {
	p := startSharedPair(t, 2, nil)
	must(t, p.servers[0].Exec("create database here", "create table shop.here (a int)"))
	for want, prepare := range map[string]func(c *mysqlconn.Client) error{
		"use schema here": func(c *mysqlconn.Client) error { _, err := c.Exec(t.Context(), "use here"); return err },
		"statement with digest": func(c *mysqlconn.Client) error {
			_, err := c.Prepare(t.Context(), []byte("select * from here"))
			return err
		},
		"sql_mode is": func(c *mysqlconn.Client) error { return p.servers[1].Exec("set global sql_mode = 'ANSI'") },
		"Access denied": func(c *mysqlconn.Client) error {
			return p.servers[1].Exec("set global sql_mode = default", "alter user "+testmysql.AppUser+"@'%' identified by 'other'")
		},
	} {
		c := p.dial(t, nil)
		must(t, prepare(c))
		token, _, err := p.Pause(t.Context(), gateway.MaxPause)
		must(t, err)
		if _, _, err = p.Switch(t.Context(), token, switchover.Standby, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if got := one(t, c, "select @@port")[0]; got != p.port(switchover.Backend) {
			t.Errorf("%s: a client is on the server with port %s", want, got)
		}
		must(t, c.Close())
		must(t, p.servers[1].Exec("set global sql_mode = default", "alter user "+testmysql.AppUser+"@'%' identified by '"+testmysql.Password+"'"))
	}
}

// startMovable starts a gateway with a connection for the clients of a user, to a server whose address can be replaced.
func startMovable(t *testing.T, addr, user string) (*rig, *atomic.Pointer[string]) {
	t.Helper()
	at := new(atomic.Pointer[string])
	at.Store(&addr)
	return startGateway(t, "backend.example:3306", func(o *gateway.Options) {
		o.Loops, o.Observers = 1, nil
		o.Backend.Key = mysqlconn.ServerKey{Request: true}
		o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, *at.Load())
		}
		o.Pool = &gateway.PoolOptions{Max: 1, Wait: 5 * time.Second, Password: func(name string) (string, bool) { return testmysql.Password, name == user }}
	}), at
}

// resetAnother has a client of a user reset its session: the connection is reset again before another one's next statement.
func resetAnother(t *testing.T, r *rig, user string) {
	t.Helper()
	c := dialPooled(t, r.addr, "", func(c *mysqlconn.Config) { c.User = user })
	must(t, c.Send(t.Context(), []byte{byte(mysqlwire.ComResetConnection)}))
	one(t, c, "select 1")
	must(t, c.Close())
}

// TestSharedFailover gives the backend's address to another server, whose version and defaults are others: a client that logs in then
// is greeted with them, and a connection that was reset is in the state of a login there.
func TestSharedFailover(t *testing.T) {
	first := testmysql.Start(t, testmysql.WithArgs("--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"))
	second := testmysql.Start(t, testmysql.WithArgs("--character-set-server=latin1", "--collation-server=latin1_swedish_ci", "--version=10.11.99-MariaDB-other"))
	r, at := startMovable(t, first.Addr, testmysql.AppUser)
	a := dialPooled(t, r.addr, "", nil)
	resetAnother(t, r, testmysql.AppUser)
	one(t, a, "select 1")
	at.Store(&second.Addr)
	must(t, first.Exec("kill user "+testmysql.AppUser))
	testwait.Until(t, "the connection to be closed", func() bool { return r.metric(t, "tare_pool_connections", "open", testmysql.AppUser) == 0 })
	one(t, a, "select 1")
	resetAnother(t, r, testmysql.AppUser)
	names := "select @@character_set_client, @@collation_connection, @@character_set_results, @@version"
	direct := dialPooled(t, second.Addr, "", nil)
	want := strings.Join(one(t, direct, names), "|")
	for _, c := range []*mysqlconn.Client{a, dialPooled(t, r.addr, "", nil)} {
		if got := strings.Join(one(t, c, names), "|"); got != want {
			t.Errorf("the state is %s, want %s", got, want)
		}
	}
	if got := dialPooled(t, r.addr, "", nil).ServerVersion; got != direct.ServerVersion {
		t.Errorf("a client is greeted with version %s, want %s", got, direct.ServerVersion)
	}
}

// TestSharedInitConnect gives the backend's address to another server, which has an init_connect: where a connection to the first one
// is reset, one to the second is replaced, so that each client has the state of a login there.
func TestSharedInitConnect(t *testing.T) {
	first, second := testmysql.Start(t), testmysql.Start(t)
	for _, s := range []*testmysql.Server{first, second} {
		must(t, s.Exec("create user guest@'%' identified by '"+testmysql.Password+"'"))
	}
	must(t, second.Exec("set global init_connect = 'set time_zone = \"+05:00\"'"))
	r, at := startMovable(t, first.Addr, "guest")
	guest := func(c *mysqlconn.Config) { c.User = "guest" }
	a := dialPooled(t, r.addr, "", guest)
	opened := func() uint64 { return r.metric(t, "tare_pool_opened_total", "guest") }
	for _, server := range []struct {
		*testmysql.Server
		zone   string
		resets bool
	}{{first, "SYSTEM", true}, {second, "+05:00", false}} {
		if server.Server == second {
			must(t, first.Exec("kill "+one(t, a, "select connection_id()")[0]))
			at.Store(&second.Addr)
			testwait.Until(t, "the connection to be closed", func() bool { return r.metric(t, "tare_pool_connections", "open", "guest") == 0 })
			a = dialPooled(t, r.addr, "", guest)
		}
		before := opened()
		for range 2 {
			resetAnother(t, r, "guest")
			if got := one(t, a, "select @@time_zone")[0]; got != server.zone {
				t.Errorf("the time zone is %s, want %s", got, server.zone)
			}
		}
		if n := opened() - before; server.resets != (n == 0) {
			t.Errorf("%d connections opened; resets: %v", n, server.resets)
		}
	}
}

// TestSharedReadOnly gives the backend's address to another server while the one before keeps its connections and refuses writes.
func TestSharedReadOnly(t *testing.T) {
	bothServers(t, func(t *testing.T, first *testmysql.Server) {
		second := testmysql.Start(t)
		for _, s := range []*testmysql.Server{first, second} {
			must(t, s.Exec("create database shop", "create table shop.t (a int)", "create user guest@'%' identified by '"+testmysql.Password+"'", "grant all on shop.* to guest@'%'"))
		}
		r, at := startMovable(t, first.Addr, "guest")
		c := dialPooled(t, r.addr, "shop", func(c *mysqlconn.Config) { c.User = "guest" })
		at.Store(&second.Addr)
		must(t, first.Exec("set global read_only = 1"))
		_, err := c.Exec(t.Context(), "insert into t values (1)")
		if e := refusal(t, "a write", err); e.Number != 1290 {
			t.Errorf("error %d: %s", e.Number, e.Message)
		}
		testwait.Until(t, "the connection to be closed", func() bool { return r.metric(t, "tare_pool_connections", "open", "guest") == 0 })
		_, err = c.Exec(t.Context(), "insert into t values (1)")
		must(t, err)
	})
}
