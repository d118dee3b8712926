package gateway_test

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// bothServers runs a test on MariaDB and MySQL.
func bothServers(t *testing.T, f func(t *testing.T, s *testmysql.Server)) {
	onServers(t, f, map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}})
}

// bothWithTLS runs a test on MariaDB and MySQL, with TLS to them and without.
func bothWithTLS(t *testing.T, f func(t *testing.T, s *testmysql.Server)) {
	bothServers(t, f)
	onServers(t, f, map[string][]testmysql.Option{"MariaDB, TLS": {testmysql.WithTLS()}, "MySQL, TLS": {testmysql.WithMySQL(), testmysql.WithTLS()}})
}

func onServers(t *testing.T, f func(t *testing.T, s *testmysql.Server), servers map[string][]testmysql.Option) {
	for name, opts := range servers {
		t.Run(name, func(t *testing.T) { f(t, testmysql.StartOrSkip(t, opts...)) })
	}
}

// startPooled runs a gateway whose sessions of AppUser share at most n connections: with TLS if the server has a certificate of the test.
func startPooled(t testing.TB, s *testmysql.Server, n int, change func(*gateway.PoolOptions)) *rig {
	t.Helper()
	return startGateway(t, s.Addr, func(o *gateway.Options) {
		o.Loops, o.Observers = 1, nil
		o.Backend.Key = mysqlconn.ServerKey{Request: true}
		if s.CA != nil {
			o.Backend.TLS, o.ClientTLS = mysqlconn.TLSRequired, gateway.ClientTLSPreferred
		}
		o.KillQuery = func(string, uint32) error { return errors.New("no control account") }
		o.Pool = &gateway.PoolOptions{Max: n, Wait: 5 * time.Second, Password: func(user string) (string, bool) {
			return testmysql.Password, user == testmysql.AppUser || user == testmysql.RootUser
		}}
		if change != nil {
			change(o.Pool)
		}
	})
}

func dialPooled(t testing.TB, addr, schema string, change func(*mysqlconn.Config)) *mysqlconn.Client {
	t.Helper()
	c, err := dialShared(t, addr, schema, change)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dialShared(t testing.TB, addr, schema string, change func(*mysqlconn.Config)) (*mysqlconn.Client, error) {
	t.Helper()
	cfg := mysqlconn.Config{
		Addr: addr, User: testmysql.AppUser, Password: testmysql.Password, Database: schema, TLSMode: mysqlconn.TLSDisabled,
		ServerKey: mysqlconn.ServerKey{Request: true},
	}
	if change != nil {
		change(&cfg)
	}
	c, err := mysqlconn.Dial(t.Context(), cfg)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// one returns the values of the only row of a query.
func one(t testing.TB, c *mysqlconn.Client, sql string) (row []string) {
	t.Helper()
	_, err := c.Query(t.Context(), sql, func(r mysqlwire.TextRow) error {
		for _, v := range r {
			row = append(row, string(v))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return row
}

func TestPooled(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database shop", "create table shop.t (id int auto_increment primary key, v int)"))
		r := startPooled(t, s, 2, nil)
		var all []*mysqlconn.Client
		for range 10 {
			all = append(all, dialPooled(t, r.addr, "shop", nil))
		}
		for i, c := range all {
			res, err := c.Exec(t.Context(), "insert into t (v) values (1)")
			must(t, err)
			if res.LastInsertID != uint64(i+1) {
				t.Errorf("id %d, want %d", res.LastInsertID, i+1)
			}
		}
		if n := r.metric(t, "tare_pool_connections", "open", testmysql.AppUser); n != 2 && n != 1 {
			t.Errorf("%d connections", n)
		}
		var refused *mysqlconn.ServerError
		_, err := dialShared(t, r.addr, "shop", func(c *mysqlconn.Config) { c.Password = "wrong" })
		if !errors.As(err, &refused) || refused.Number != mysqlwire.ErrnoAccessDenied {
			t.Errorf("a wrong password: %v", err)
		}
		for i, c := range all {
			if got := one(t, c, "select last_insert_id()")[0]; got != string(rune('0'+(i+1)%10)) && i < 9 {
				t.Errorf("client %d: LAST_INSERT_ID() = %s", i, got)
			}
		}
	})
}

// TestPooledAllocs is the allocation table of shared connections: two clients take turns on one.
func TestPooledAllocs(t *testing.T) { bothServers(t, pooledAllocs) }

func pooledAllocs(t *testing.T, s *testmysql.Server) {
	must(t, s.Exec("create database shop", "create table shop.t (id int primary key, v int)", "insert into shop.t values (1, 2)"))
	r := startPooled(t, s, 1, nil)
	a, b := dialPooled(t, r.addr, "shop", nil), dialPooled(t, r.addr, "shop", nil)
	before := r.metric(t, "tare_pool_lent_total", testmysql.AppUser)
	for what, pair := range map[string][2]*mysqlconn.Client{
		"a statement on a connection of another client": {a, b},
		"a statement of an old client":                  {openDialogue(t, r.addr, basicCaps).Client, openDialogue(t, r.addr, basicCaps).Client},
	} {
		command := testscript.Packets(0, mysqlwire.AppendQuery(nil, []byte("SELECT v FROM shop.t WHERE id = 1"), pair[0].Capabilities))
		w := &twin{worlds: [2]world{{"none", r.addr}}, clients: pair}
		want, _, err := w.exchange(0, command[mysqlwire.HeaderLen:])
		must(t, err)
		alloctest.Run(t, []alloctest.Case{{Name: what, Op: func() error {
			if err := testscript.RoundTrip(pair[0].Conn, command, want); err != nil {
				return err
			}
			return testscript.RoundTrip(pair[1].Conn, command, want)
		}}})
	}
	var executions [2][]byte
	for i, c := range []*mysqlconn.Client{a, b} {
		ok, err := c.Prepare(t.Context(), []byte("SELECT v FROM t WHERE id = ?"))
		must(t, err)
		one := []mysqlwire.BinaryValue{{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLong}, Data: []byte{1, 0, 0, 0}}}
		_, err = c.Execute(t.Context(), ok.StatementID, one, func([]byte) error { return nil })
		must(t, err)
		var p mysqlwire.StmtParams
		p.Reset(1)
		p.Values = one
		executions[i] = testscript.Packets(0, mysqlwire.StmtExecute{StatementID: ok.StatementID, Iterations: 1, Params: p.AppendTo(nil, 0, c.Capabilities, false)}.AppendTo(nil))
	}
	w := &twin{worlds: [2]world{{"none", r.addr}}, clients: [2]*mysqlconn.Client{a}}
	response, _, err := w.exchange(0, executions[0][mysqlwire.HeaderLen:])
	must(t, err)
	row := len(response)
	alloctest.Run(t, []alloctest.Case{{Name: "a prepared statement, with the types of another client's parameters", Op: func() error {
		for i, c := range []*mysqlconn.Client{a, b} {
			if _, err := c.Write(executions[i]); err != nil {
				return err
			}
			for len(c.Buffered()) < row {
				if err := c.Fill(); err != nil {
					return err
				}
			}
			c.Discard(row)
		}
		return nil
	}}})
	if n := r.metric(t, "tare_pool_lent_total", testmysql.AppUser) - before; n < 4000 {
		t.Errorf("a connection was lent %d times, want once per statement", n)
	}
}

// TestPooledCapabilities compares the responses to clients that use one capability, or all, of those that the gateway offers.
func TestPooledCapabilities(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database shop", "create table shop.t (id int primary key, v varchar(20))", "insert into shop.t values (1, 'a'), (2, 'b')"))
		r := startPooled(t, s, 2, nil)
		const base = basicCaps
		const never = mysqlwire.CapSSL | mysqlwire.CapConnectWithDB | mysqlwire.CapCompress | mysqlwire.CapZstdCompression
		offered := offers(t, r.addr) & mysqlwire.CapKnown &^ never
		sets := []mysqlwire.Capability{base, base | offered&^mysqlwire.CapLongPassword, base | offered&0xFFFFFFFF}
		for bit := range 38 {
			if c := mysqlwire.Capability(1) << bit; offered.Has(c) {
				sets = append(sets, base|c)
			}
		}
		for _, caps := range sets {
			direct, shared := openDialogue(t, s.Addr, caps), openDialogue(t, r.addr, caps)
			for _, step := range []string{
				"command 02 shop", "text select id, v from t", "text delete from t where id > 5", "text select nothing from t", "text set @a = 1", "text select @a",
				"prepare select v from t where id = 1", "execute", "execute", "close", "text show warnings", "command 0e", "command 1f", "text select v from t limit 1",
			} {
				want, err := direct.run(step)
				must(t, err)
				got, err := shared.run(step)
				if err != nil || !bytes.Equal(withoutNumber(got), withoutNumber(want)) {
					t.Errorf("%v: %s: %q, %v; want %q", caps, step, got.packets, err, want.packets)
				}
			}
			direct.Close()
			shared.Close()
		}
	})
}

// TestPinsAreShown requires an idle session that keeps its connection in the list of sessions, with the statement that is the reason.
func TestPinsAreShown(t *testing.T) {
	s := testmysql.Start(t)
	r := startPooled(t, s, 2, nil)
	a, b := dialPooled(t, r.addr, "", nil), dialPooled(t, r.addr, "", nil)
	for c, sql := range map[*mysqlconn.Client]string{a: "SET @a = 1", b: "DO 1"} {
		_, err := c.Exec(t.Context(), sql)
		must(t, err)
	}
	busy := r.Busy(10, 0)
	if len(busy.Sessions) != 1 {
		t.Fatalf("sessions %+v, want the pinned one", busy.Sessions)
	}
	got := busy.Sessions[0]
	if got.Activity != gateway.ActivityIdle || !strings.Contains(got.Pinned, "user variables") || got.Digest == (sqldigest.Digest{}) || got.Since.IsZero() {
		t.Errorf("%+v", got)
	}
	must(t, a.Send(t.Context(), []byte{byte(mysqlwire.ComResetConnection)}))
	testwait.Until(t, "the end of the pin", func() bool { return len(r.Busy(10, 0).Sessions) == 0 })
}

// TestSharedStatements has clients execute prepared statements in turn on one connection, with parameters of different types that
// they do not send again.
func TestSharedStatements(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database shop", "create table shop.t (id int primary key, v varchar(20))", "insert into shop.t values (1, 'a'), (2, 'b')"))
		r := startPooled(t, s, 1, func(o *gateway.PoolOptions) { o.Statements = 3 })
		number := mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}, Data: []byte{2, 0, 0, 0, 0, 0, 0, 0}}
		text := mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}, Data: []byte("2x")}
		var clients []*twin
		for i := range 6 {
			w := &twin{worlds: [2]world{1: {"none", r.addr}}}
			w.clients[1] = dialPooled(t, r.addr, "shop", nil)
			ok, err := w.clients[1].Prepare(t.Context(), []byte("SELECT v, CONCAT(?) FROM t WHERE id = 2"))
			must(t, err)
			w.statements[1][0] = slot{id: ok.StatementID, params: 1, value: []mysqlwire.BinaryValue{number, text}[i%2]}
			clients = append(clients, w)
		}
		for round := range 3 {
			for i, w := range clients {
				st := w.statements[1][0]
				var p mysqlwire.StmtParams
				p.Reset(1)
				p.Values = []mysqlwire.BinaryValue{st.value}
				e := mysqlwire.StmtExecute{StatementID: st.id, Iterations: 1, Params: p.AppendTo(nil, 0, w.clients[1].Capabilities, round == 0)}
				got, want := w.raw(1, e.AppendTo(nil)), []string{`\x01b\x012`, `\x01b\x022x`}[i%2]
				if got.err != "" || !strings.Contains(got.rows[0], want) {
					t.Fatalf("round %d, client %d: %v, want a row %s", round, i, got, want)
				}
			}
		}
		if pins := r.pins(t); len(pins) > 0 {
			t.Errorf("pins %v", pins)
		}
		for i := range 5 { // others than the least recently used are kept
			c := clients[i].clients[1]
			ok, err := c.Prepare(t.Context(), []byte("SELECT 1 + "+strconv.Itoa(i)))
			must(t, err)
			_, err = c.Execute(t.Context(), ok.StatementID, nil, func([]byte) error { return nil })
			must(t, err)
		}
		if n := serverStatements(t, s); n != "3" {
			t.Errorf("the server has %s prepared statements, want 3", n)
		}
		must(t, s.Exec("set global max_prepared_stmt_count = 3"))
		w := clients[0]
		ok, err := w.clients[1].Prepare(t.Context(), []byte("SELECT 'another'"))
		if refused, is := errors.AsType[*mysqlconn.ServerError](err); !is || refused.Number != 1461 {
			t.Fatalf("prepared %v, %v; want the server's error 1461", ok, err)
		}
		got := w.raw(1, mysqlwire.StmtExecute{StatementID: w.statements[1][0].id, Iterations: 1, Params: []byte{0, 1, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0}}.AppendTo(nil))
		if got.err != "" { // prepared again, after others were closed
			t.Errorf("execution beyond the server's limit: %v", got)
		}
		must(t, s.Exec("drop table shop.t"))
		if got = w.raw(1, mysqlwire.StmtExecute{StatementID: w.statements[1][0].id, Iterations: 1, Params: []byte{0, 1, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0}}.AppendTo(nil)); !strings.Contains(got.err, "doesn't exist") {
			t.Errorf("execution after DROP TABLE: %v", got)
		}
	})
}

// serverStatements returns the number of prepared statements of the server.
func serverStatements(t testing.TB, s *testmysql.Server) string {
	t.Helper()
	return one(t, dialPooled(t, s.Addr, "", nil), "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")[1]
}

// TestPinsEnd has each kind of pin begin and end, and counts the statements that leave one.
func TestPinsEnd(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database shop", "create table shop.t (id int primary key)", "create table shop.u (id int primary key)"))
		r := startPooled(t, s, 1, nil)
		c := dialPooled(t, r.addr, "shop", nil)
		for _, statements := range [][]string{
			{"CREATE TEMPORARY TABLE a (x INT)", "CREATE TEMPORARY TABLE b (x INT)", "DROP TEMPORARY TABLE a", "DROP TABLE shop.b"},
			{"SELECT GET_LOCK('a', 0)", "DO GET_LOCK('a', 0)", "DO GET_LOCK('b', 0)", "DO RELEASE_LOCK('a')", "SELECT RELEASE_LOCK('a')", "SELECT RELEASE_LOCK('b')"},
			{"SELECT GET_LOCK('a', 0), 1", "DO RELEASE_LOCK('a')", "SELECT RELEASE_ALL_LOCKS()"},
			{"HANDLER t OPEN", "HANDLER u OPEN AS h", "HANDLER t READ FIRST", "HANDLER h CLOSE", "HANDLER t CLOSE"},
			{"PREPARE p FROM 'SELECT 1'", "PREPARE q FROM 'SELECT 2'", "DEALLOCATE PREPARE q", "DROP PREPARE p"},
			{"XA START 'x'", "XA END 'x'", "XA ROLLBACK 'x'"},
			{"LOCK TABLES t READ", "UNLOCK TABLES"},
		} {
			for i, sql := range statements {
				_, err := c.Query(t.Context(), sql, func(mysqlwire.TextRow) error { return nil })
				if err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
				if last := i == len(statements)-1; last {
					testwait.Until(t, "the end of the pin after "+sql, func() bool { return len(r.pins(t)) == 0 })
				} else if pins := r.pins(t); len(pins) != 1 {
					t.Errorf("after %s: pins %v, want one", sql, pins)
				}
			}
		}
		for _, endless := range [][]string{
			{"CREATE TEMPORARY TABLE a SELECT GET_LOCK('a', 0) AS v", "DROP TEMPORARY TABLE a"},
			{"CREATE TEMPORARY TABLE a (x INT)", "ALTER TABLE a RENAME TO b", "CREATE TABLE a (x INT)", "DROP TABLE a"},
			{"PREPARE p FROM 'SET @a = 1'", "EXECUTE p", "DEALLOCATE PREPARE p"},
		} {
			for _, sql := range endless {
				_, err := c.Query(t.Context(), sql, func(mysqlwire.TextRow) error { return nil })
				if err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			if pins := r.pins(t); len(pins) != 1 {
				t.Errorf("after %q: pins %v, want one", endless, pins)
			}
			must(t, c.Send(t.Context(), []byte{byte(mysqlwire.ComResetConnection)}))
		}
	})
}

// TestKillShared kills by the ids that the gateway has given to clients: a statement, a session, and those of another user.
func TestKillShared(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		r := startPooled(t, s, 3, nil)
		victim, killer := dialPooled(t, r.addr, "", nil), dialPooled(t, r.addr, "", nil)
		id := strconv.Itoa(int(victim.ConnectionID))
		sleep := func() chan error {
			done := make(chan error, 1)
			go func() {
				_, err := victim.Query(t.Context(), "SELECT SLEEP(1000)", func(mysqlwire.TextRow) error { return nil })
				done <- err
			}()
			testwait.Until(t, "the victim's statement", func() bool {
				b := r.Busy(10, 0)
				return len(b.Sessions) == 1 && b.Sessions[0].Activity == gateway.ActivityBackend
			})
			return done
		}
		done := sleep()
		other := dialPooled(t, r.addr, "", func(c *mysqlconn.Config) { c.User = testmysql.RootUser })
		_, err := other.Exec(t.Context(), "KILL QUERY "+id)
		if refused, ok := errors.AsType[*mysqlconn.ServerError](err); !ok || refused.Number != 1095 {
			t.Errorf("KILL QUERY by another user: %v, want error 1095", err)
		}
		_, err = killer.Exec(t.Context(), "KILL QUERY "+id)
		must(t, err)
		<-done // the server decides whether that is an error
		for range 5 {
			if got := one(t, victim, "SELECT 1")[0]; got != "1" {
				t.Errorf("after the kill: %s", got)
			}
			if got := one(t, killer, "SELECT 2")[0]; got != "2" {
				t.Errorf("after the kill: %s", got)
			}
		}
		_, err = killer.Exec(t.Context(), "KILL QUERY "+id) // which executes nothing
		must(t, err)
		done = sleep()
		_, err = killer.Exec(t.Context(), "KILL "+id)
		must(t, err)
		if err := <-done; err == nil {
			t.Error("the killed session has a result")
		}
	})
}

// TestHiddenChanges has statements change the session without a word of it in their texts, for clients with and without OK packets
// at the end of rows, and requires that the client sees the change and no other one does.
func TestHiddenChanges(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("set global log_bin_trust_function_creators = 1", "create database shop", "create table shop.g (x int unique)", "insert into shop.g values (1)",
			"create function shop.f() returns int no sql begin set @hidden = 7; return 1; end", "create view shop.v as select shop.f() as x",
			"create trigger shop.r before insert on shop.g for each row set @hidden = 7"))
		r := startPooled(t, s, 2, nil)
		const base = basicCaps
		for _, caps := range []mysqlwire.Capability{base, base | mysqlwire.CapDeprecateEOF} {
			for _, sql := range []string{"select * from shop.v", "select * from shop.v where x > 5", "insert into shop.g values (1)"} {
				c, other := openDialogue(t, r.addr, caps), openDialogue(t, r.addr, caps)
				_, err := c.run("text " + sql)
				must(t, err)
				testwait.Until(t, "the pin after "+sql, func() bool { return strings.Contains(strings.Join(r.pins(t), ""), "reported a change") })
				for d, want := range map[*dialogue]string{c: "\x017", other: "\xfb"} {
					got, err := d.run("text select @hidden")
					if err != nil || !bytes.Contains(got.bytes(), []byte(want)) {
						t.Errorf("%v, %s: @hidden of the client itself %v: %q, %v", caps, sql, d == c, got.packets, err)
					}
				}
				c.Close()
				other.Close()
				testwait.Until(t, "the end of the sessions", func() bool { return len(r.pins(t)) == 0 })
			}
		}
	})
}

// TestSelectLimit has sessions that receive no rows of a SELECT: the gateway's own ones are not concerned.
func TestSelectLimit(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database shop", "create table shop.t (id int auto_increment primary key, v int)"))
		r := startPooled(t, s, 1, nil)
		a, b := dialPooled(t, r.addr, "shop", nil), dialPooled(t, r.addr, "shop", nil)
		for _, sql := range []string{"SET sql_select_limit = 0", "INSERT INTO t (v) VALUES (1)", "INSERT INTO t (id, v) VALUES (1, 1)", "DO 1"} {
			for _, c := range []*mysqlconn.Client{a, b} {
				_, err := c.Exec(t.Context(), sql)
				if refused, ok := errors.AsType[*mysqlconn.ServerError](err); err != nil && (!ok || refused.Number != 1062) {
					t.Fatalf("%s: %v", sql, err)
				}
			}
		}
		if got := one(t, a, "SELECT LAST_INSERT_ID() LIMIT 1")[0]; got != "1" {
			t.Errorf("LAST_INSERT_ID() = %s, want 1", got)
		}
	})
}

// TestFailedUse has a client without any further command after an error that leaves its default schema to be queried.
func TestFailedUse(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database d1"))
		r := startPooled(t, s, 1, nil)
		a, b := dialPooled(t, r.addr, "d1", nil), dialPooled(t, r.addr, "", nil)
		if _, err := a.Exec(t.Context(), "USE nowhere"); err == nil {
			t.Error("USE of an unknown schema: no error")
		}
		if _, err := b.Exec(t.Context(), "DO 1"); err != nil {
			t.Errorf("another client: %v", err)
		}
		if got := one(t, a, "SELECT DATABASE()")[0]; got != "d1" {
			t.Errorf("default schema %q, want d1", got)
		}
	})
}

// TestSetsAfterReset: a SET that the session before has executed too is executed again if the connection is reset.
func TestSetsAfterReset(t *testing.T) {
	s := testmysql.Start(t)
	must(t, s.Exec("create database d1"))
	r := startPooled(t, s, 1, nil)
	a, b := dialPooled(t, r.addr, "d1", nil), dialPooled(t, r.addr, "d1", nil)
	must(t, a.Send(t.Context(), []byte{byte(mysqlwire.ComResetConnection)}))
	for _, c := range []*mysqlconn.Client{b, a} {
		one(t, c, "USE d1")
		one(t, c, "SET sql_mode = 'ANSI_QUOTES'")
	}
	for i, c := range []*mysqlconn.Client{b, a, b} {
		if got := one(t, c, "SELECT @@sql_mode"); got[0] != "ANSI_QUOTES" {
			t.Errorf("%d: %q", i, got)
		}
	}
}

// TestResetCollations has two clients of each login's collation take turns on a connection that is reset between them, and compares
// with sessions that were not.
func TestResetCollations(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		r := startPooled(t, s, 1, nil)
		for _, collation := range []uint8{0, 5, 8, 28, 33, 45, 46, 47, 48, 192, 224, 246, 255} {
			log := func(c *mysqlconn.Config) { c.Charset = collation }
			other, opened := dialPooled(t, r.addr, "", log), r.metric(t, "tare_pool_opened_total", testmysql.AppUser)
			w := &twin{worlds: [2]world{{"none", s.Addr}, {"none", r.addr}}}
			for i, world := range w.worlds {
				w.clients[i] = dialPooled(t, world.addr, "", log)
			}
			for _, sql := range []string{"SELECT 'a', @@character_set_client, @@character_set_results, @@collation_connection", "SET sql_mode = ''", "SELECT 'a', COLLATION('a')"} {
				if _, err := other.Exec(t.Context(), "SET sql_mode = 'ANSI_QUOTES'"); err != nil {
					t.Fatal(err)
				}
				query := mysqlwire.AppendQuery(nil, []byte(sql), w.clients[1].Capabilities)
				if want, got := w.raw(0, query), w.raw(1, query); got.String() != want.String() {
					t.Errorf("collation %d, %s:\n got %v\nwant %v", collation, sql, got, want)
				}
			}
			other.Close()
			w.clients[1].Close()
			if n := r.metric(t, "tare_pool_opened_total", testmysql.AppUser) - opened; n != 0 {
				t.Errorf("collation %d: %d connections opened where one was to be reset", collation, n)
			}
		}
	})
}

// TestPooledSchemaNames logs in with default schemas whose names are not plain ASCII.
func TestPooledSchemaNames(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		names := []string{"shop", "bücher", "a b", "x{y}", "[z]", "q`q", "小店"}
		for _, name := range names {
			quoted := "`" + strings.ReplaceAll(name, "`", "``") + "`"
			must(t, s.Exec("create database "+quoted, "create table "+quoted+".t (v int)", "insert into "+quoted+".t values (1)"))
		}
		r := startPooled(t, s, 2, nil)
		for range 2 {
			for _, name := range names {
				c := dialPooled(t, r.addr, name, nil)
				if got := one(t, c, "select database(), v from t"); !slices.Equal(got, []string{name, "1"}) {
					t.Errorf("logged in with %q: %q", name, got)
				}
				must(t, c.Close()) // clients of other names keep their connections
				other := dialPooled(t, r.addr, "", nil)
				if got := one(t, other, "select coalesce(database(), 'none')")[0]; got != "none" {
					t.Errorf("after a client of %q, one without a schema has %q", name, got)
				}
				must(t, other.Close())
			}
			for _, name := range []string{"nö", "n", "b\xfccher"} {
				_, direct := dialShared(t, s.Addr, name, nil)
				_, err := dialShared(t, r.addr, name, nil)
				if got, want := refusal(t, name, err), refusal(t, name, direct); got.Number != want.Number {
					t.Errorf("logged in with %q: %v, directly %v", name, got, want)
				}
			}
		}
	})
}
