package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// refusal returns the error of the server, or of the gateway, that a statement or a login has.
func refusal(t *testing.T, what string, err error) *mysqlconn.ServerError {
	t.Helper()
	refused, ok := errors.AsType[*mysqlconn.ServerError](err)
	if !ok {
		t.Fatalf("%s: %v, want an error of the server", what, err)
	}
	return refused
}

// TestPooledLoginErrors compares errors of logins with a default schema that does not exist or is not the client's with those of the server.
func TestPooledLoginErrors(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database theirs", "create user guest@'%' identified by '"+testmysql.Password+"'"))
		r := startPooled(t, s, 2, func(o *gateway.PoolOptions) {
			o.Password = func(string) (string, bool) { return testmysql.Password, true }
		})
		for user, schema := range map[string]string{testmysql.AppUser: "nowhere", "guest": "theirs"} {
			as := func(c *mysqlconn.Config) { c.User = user }
			_, direct := dialShared(t, s.Addr, schema, as)
			_, shared := dialShared(t, r.addr, schema, as)
			want, got := refusal(t, "directly", direct), refusal(t, "through Tare", shared)
			if got.Number != want.Number || got.State != want.State || got.Message != want.Message {
				t.Errorf("user %s, schema %s: error %d (%s): %s; want %d (%s): %s", user, schema, got.Number, got.State, got.Message, want.Number, want.State, want.Message)
			}
		}
	})
}

// TestPooledSchemaDropped drops the default schema of a client that has no connection: its statements that need none succeed, and it
// can select another one.
func TestPooledSchemaDropped(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database gone", "create database stays"))
		r := startPooled(t, s, 1, nil)
		a, b := dialPooled(t, r.addr, "gone", nil), dialPooled(t, r.addr, "stays", nil)
		one(t, a, "select 1")
		one(t, b, "select 1")
		must(t, s.Exec("drop database gone"))
		if got := one(t, a, "select 1"); got[0] != "1" {
			t.Errorf("select 1: %q", got)
		}
		_, err := a.Query(t.Context(), "select * from t", func(mysqlwire.TextRow) error { return nil })
		_ = refusal(t, "a table without a schema", err)
		one(t, b, "select 1")
		_, err = a.Exec(t.Context(), "use stays")
		must(t, err)
		one(t, b, "select 1")
		if got := one(t, a, "select database()"); got[0] != "stays" {
			t.Errorf("the default schema is %q", got)
		}
	})
}

// TestSharedAlterDatabase has one client change the character set of the default schema of two, on two connections.
func TestSharedAlterDatabase(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database shop character set utf8mb4"))
		r := startPooled(t, s, 2, nil)
		a, b := dialPooled(t, r.addr, "shop", nil), dialPooled(t, r.addr, "shop", nil)
		for _, charset := range []string{"utf8mb4", "latin1", "ascii"} {
			_, err := a.Exec(t.Context(), "alter database shop character set "+charset)
			must(t, err)
			for _, c := range []*mysqlconn.Client{a, b} {
				_, err := c.Exec(t.Context(), "begin")
				must(t, err)
				if got := one(t, c, "select @@character_set_database")[0]; got != charset {
					t.Errorf("the schema's character set is %s, want %s", got, charset)
				}
			}
			for _, c := range []*mysqlconn.Client{a, b} {
				_, err := c.Exec(t.Context(), "commit")
				must(t, err)
			}
		}
	})
}

// TestSharedRoles changes what a reset of a connection does not restore: its client has it as directly, and no other client does.
func TestSharedRoles(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		account, preposition := testmysql.AppUser+"@'%'", "for"
		state := "select current_role()"
		if strings.HasSuffix(t.Name(), "MySQL") {
			preposition = "to"
			must(t, s.Exec("create resource group slow type = user vcpu = 0", "grant resource_group_user on *.* to "+account, "grant select on performance_schema.* to "+account))
			state = "select concat(current_role(), (select resource_group from performance_schema.threads where processlist_id = connection_id()))"
		}
		must(t, s.Exec("create database shop", "create table shop.t (id int)", "create role r1", "create role r2", "grant r1 to "+account, "grant r2 to "+account,
			"set default role r1 "+preposition+" "+account, "create procedure shop.p() sql security invoker set role r2",
			"set global log_bin_trust_function_creators = 1", "create function shop.f() returns int sql security invoker begin set role r2; return 1; end"))
		r, direct := startPooled(t, s, 2, nil), dialPooled(t, s.Addr, "shop", nil)
		want := one(t, direct, state)[0]
		reset := func(c *mysqlconn.Client) error {
			return c.Send(t.Context(), []byte{byte(mysqlwire.ComResetConnection)})
		}
		change := func(c *mysqlconn.Client) error {
			return changeSharedUser(c, testmysql.AppUser, testmysql.Password, "shop", 45)
		}
		for _, left := range []struct {
			sql   string
			reset func(*mysqlconn.Client) error
			keeps bool
		}{
			{"set role r2", reset, true},
			{"set role none", reset, true},
			{"set role r2", change, false},
			{"set resource group slow", reset, true},
			{"set resource group slow", change, false},
			{"execute immediate 'set role r2'", reset, false},
			{"call p()", reset, false},
			{"select f()", reset, false},
			{"prepare s from 'set role r2'; execute s", reset, false},
			{"xa start 'x'; insert into t values (1); xa end 'x'; xa prepare 'x'", reset, false},
			{"xa start 'y'; insert into t values (1); xa end 'y'; xa prepare 'y'", change, false},
		} {
			a, b := dialPooled(t, r.addr, "shop", nil), dialPooled(t, r.addr, "shop", nil)
			known := true
			for sql := range strings.SplitSeq(left.sql, "; ") {
				_, err := a.Query(t.Context(), sql, func(mysqlwire.TextRow) error { return nil })
				if e, ok := errors.AsType[*mysqlconn.ServerError](err); known && ok && e.Number == mysqlwire.ErrnoSyntax {
					known = false // MySQL has no EXECUTE IMMEDIATE, MariaDB no resource groups
				} else if err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			if !known {
				continue
			}
			must(t, left.reset(a))
			one(t, b, "begin")
			if got := one(t, b, state)[0]; got != want {
				t.Errorf("after %s, another client has %s, want %s", left.sql, got, want)
			}
			if got := one(t, a, state)[0]; (got != want) != left.keeps {
				t.Errorf("after %s, the client has %s itself, at its login %s", left.sql, got, want)
			}
			one(t, a, "select count(*) from t")
			must(t, errors.Join(a.Close(), b.Close()))
		}
		for set, read := range map[string]string{
			"set profiling = 1":                     "show profiles",
			"set optimizer_trace = 'enabled=on'":    "select query from information_schema.optimizer_trace",
			"set @@optimizer_trace := 'enabled=on'": "select query from information_schema.optimizer_trace",
		} {
			for _, reset := range []func(*mysqlconn.Client) error{reset, change} {
				a, b := dialPooled(t, r.addr, "shop", nil), dialPooled(t, r.addr, "shop", nil)
				one(t, a, set)
				one(t, a, "select 'secret' from t where id = 1")
				must(t, reset(a))
				one(t, b, "begin")
				if got := one(t, b, read); strings.Contains(strings.Join(got, ""), "secret") {
					t.Errorf("after %s, another client reads %q", set, got)
				}
				must(t, errors.Join(a.Close(), b.Close()))
			}
		}
	})
}

// TestSharedLastGTID reads @@last_gtid, which is the GTID of the connection's last write: of another client's, unless the client keeps
// the connection.
func TestSharedLastGTID(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithBinlog())
	must(t, s.Exec("create database shop", "create table shop.t (id int)"))
	r := startPooled(t, s, 1, nil)
	a, b := dialPooled(t, r.addr, "shop", nil), dialPooled(t, r.addr, "shop", nil)
	for _, c := range []*mysqlconn.Client{a, b} {
		one(t, c, "insert into t values (1)")
	}
	for _, sql := range []string{"select @@last_gtid", "select @@session.Last_GTID", "select concat(@@`last_gtid`)"} {
		_, err := a.Query(t.Context(), sql, func(mysqlwire.TextRow) error { return nil })
		if e := refusal(t, sql, err); e.Number != 1235 || !strings.Contains(e.Message, "session_track_system_variables") {
			t.Errorf("%s: error %d: %s", sql, e.Number, e.Message)
		}
	}
	one(t, a, "lock tables t write")
	one(t, a, "insert into t values (2)")
	own := one(t, a, "select @@last_gtid")[0]
	if position := one(t, a, "select @@gtid_binlog_pos")[0]; own != position || own == "" {
		t.Errorf("@@last_gtid is %q on the client's own connection, want %q", own, position)
	}
}

// TestSharedSetOption has a client keep the only connection after COM_SET_OPTION, until it leaves.
func TestSharedSetOption(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		r := startPooled(t, s, 1, func(o *gateway.PoolOptions) { o.Wait = time.Millisecond })
		dial := func() *mysqlconn.Client {
			c := dialPooled(t, r.addr, "", nil)
			testwait.Until(t, "the connection to be returned", func() bool { return r.metric(t, "tare_pool_connections", "idle", testmysql.AppUser) == 1 })
			return c
		}
		a, b := dial(), dial()
		must(t, a.Send(t.Context(), mysqlwire.SetOption{Option: mysqlwire.OptionMultiStatementsOn}.AppendTo(nil)))
		_, err := b.Exec(t.Context(), "do 1")
		if e := refusal(t, "a statement of another client", err); e.Number != 1203 {
			t.Errorf("error %d: %s, want 1203", e.Number, e.Message)
		}
		must(t, a.Close())
		testwait.Until(t, "the connection to be free", func() bool {
			_, err := b.Exec(t.Context(), "do 1")
			return err == nil
		})
	})
}

// TestPooledServerErrors has a statement fail as it is prepared on another connection: its client gets the server's error with its
// SQLSTATE.
func TestPooledServerErrors(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database shop", "create table shop.t (a int)"))
		r := startPooled(t, s, 1, nil)
		a, b := dialPooled(t, r.addr, "shop", nil), dialPooled(t, r.addr, "shop", nil)
		st, err := a.Prepare(t.Context(), []byte("select a from shop.t where a < 1"))
		must(t, err)
		_, err = b.Exec(t.Context(), "set @x = 1") // the connection is reset before its next client
		must(t, err)
		must(t, b.Close())
		must(t, s.Exec("drop table shop.t"))
		_, err = a.Execute(t.Context(), st.StatementID, nil, func([]byte) error { return nil })
		if got := refusal(t, "an execution", err); got.Number != 1146 || got.State != "42S02" || bytes.Contains([]byte(got.Message), []byte("Tare")) {
			t.Errorf("error %d (%s): %s", got.Number, got.State, got.Message)
		}
	})
}

// TestPooledDiagnostics reads the warnings, the error and the rows of a statement that had a connection whose LAST_INSERT_ID() is
// another client's.
func TestPooledDiagnostics(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database shop", "create table shop.t (id int auto_increment primary key, v int)"))
		r := startPooled(t, s, 1, nil)
		a, b := dialPooled(t, r.addr, "shop", nil), dialPooled(t, r.addr, "shop", nil)
		for _, pair := range [][3]string{
			{"select cast('x' as signed)", "show warnings", "Warning"},
			{"select nothing", "show errors", "Error"},
			{"select sql_calc_found_rows id from t limit 0", "select found_rows() > 0", "1"},
			{"select cast('x' as signed)", "select @@warning_count", "1"},
		} {
			_, err := b.Exec(t.Context(), "insert into t (v) values (1)")
			must(t, err)
			_, _ = a.Query(t.Context(), pair[0], func(mysqlwire.TextRow) error { return nil })
			if got := one(t, a, pair[1]); len(got) == 0 || got[0] != pair[2] {
				t.Errorf("%s, after %s: %q, want %q", pair[1], pair[0], got, pair[2])
			}
		}
	})
}

// TestPooledInsertIDs compares LAST_INSERT_ID() after statements that set it, or do not, of a client that shares its connection with
// another one, whose ids are others.
func TestPooledInsertIDs(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		steps := []string{
			"insert into t (v) values (1)", "insert into t (id, v) values (100, 2)", "insert into t (id, v) values (-1, 2)", "insert into t (v) values (3)", "insert into t (id) values (100)",
			"insert into t (v) values (4), (5)", "update t set v = last_insert_id(77) where v = 4", "insert into t (id, v) values (200, 6)", "insert into u (a) values (1), (1)",
			"begin", "insert into t (id, v) values (300, 7)", "insert into t (v) values (8)", "commit", "insert into t (id, v) values (400, 9)", "insert ignore into t (v) values ('x')",
			"insert ignore into t (id, v) values (500, 'x')", "set autocommit = 0", "insert into t (id, v) values (600, 1)", "insert into t (v) values (9)", "rollback", "set autocommit = 1",
		}
		must(t, s.Exec("create database direct", "create database shared"))
		for _, schema := range []string{"direct", "shared"} {
			must(t, s.Exec("create table "+schema+".t (id int auto_increment primary key, v int)", "create table "+schema+".u (id int auto_increment primary key, a int unique)"))
		}
		must(t, s.Exec("create table shared.others (id int auto_increment primary key) auto_increment = 1000"))
		r := startPooled(t, s, 1, nil)
		for _, read := range []bool{true, false} { // the other client leaves its id on the connection, or none
			direct, shared, other := dialPooled(t, s.Addr, "direct", nil), dialPooled(t, r.addr, "shared", nil), dialPooled(t, r.addr, "shared", nil)
			for _, step := range steps {
				keeps := strings.Contains(step, "ignore") // the connection, for its warnings
				for _, c := range []*mysqlconn.Client{direct, shared} {
					if _, err := c.Query(t.Context(), step, func(mysqlwire.TextRow) error { return nil }); err != nil {
						_ = refusal(t, step, err)
						keeps = true
					}
				}
				if keeps || shared.Status.Has(mysqlwire.StatusInTrans) {
					if want, got := one(t, direct, "select last_insert_id()")[0], one(t, shared, "select last_insert_id()")[0]; got != want {
						t.Errorf("on the same connection, after %s: LAST_INSERT_ID() is %s, want %s", step, got, want)
					}
					continue
				}
				_, err := other.Exec(t.Context(), "insert into others values ()")
				if err != nil {
					t.Fatalf("after %s: %v", step, err)
				}
				if read {
					one(t, other, "select last_insert_id()")
				}
				if strings.Contains(step, "200") {
					continue // the next statement finds the id of the one before
				}
				if want, got := one(t, direct, "select last_insert_id()")[0], one(t, shared, "select last_insert_id()")[0]; got != want {
					t.Errorf("after %s: LAST_INSERT_ID() is %s, want %s", step, got, want)
				}
			}
		}
	})
}

// changeSharedUser changes the user of a client, in the way of the server's method.
func changeSharedUser(c *mysqlconn.Client, user, password, schema string, charset uint16) error {
	u := mysqlwire.ChangeUser{User: []byte(user), Database: []byte(schema), Charset: charset, AuthPlugin: []byte(mysqlconn.PluginNative), AuthResponse: make([]byte, 20)}
	c.Seq = 0
	if err := c.WriteMessage(u.AppendTo(nil, c.Capabilities)); err != nil {
		return err
	}
	for challenge := []byte(nil); ; {
		p, err := c.ReadMessage(1 << 16)
		if err != nil {
			return err
		}
		response := []byte{mysqlwire.SHA2RequestKey}
		switch p[0] {
		case mysqlwire.MarkOK:
			var ok mysqlwire.OK
			err := ok.Decode(p, c.Capabilities)
			c.Status = ok.Status
			return err
		case mysqlwire.MarkErr:
			var e mysqlwire.Err
			if err := e.Decode(p); err != nil {
				return err
			}
			return &mysqlconn.ServerError{Number: e.Number, Message: string(e.Message)}
		case mysqlwire.MarkAuthMore:
			if p[1] == mysqlwire.SHA2FastOK {
				continue
			}
			if p[1] != mysqlwire.SHA2FullAuth {
				key, err := mysqlconn.ParsePublicKey(p[1:])
				if err != nil {
					return err
				}
				if response, err = mysqlconn.EncryptPassword(password, challenge, key); err != nil {
					return err
				}
			}
		default:
			var sw mysqlwire.AuthSwitchRequest
			if err := sw.Decode(p); err != nil {
				return err
			}
			challenge = bytes.Clone(bytes.TrimSuffix(sw.Data, []byte{0}))
			response = mysqlconn.ScrambleSHA2(password, challenge)
			if string(sw.Plugin) == mysqlconn.PluginNative {
				response = mysqlconn.ScrambleNative(password, challenge)
			}
		}
		if err := c.WriteMessage(response); err != nil {
			return err
		}
	}
}

// TestSharedChangeUser changes the user of a session that has left much, directly and through shared connections: to the same user
// and another one, and in vain.
func TestSharedChangeUser(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database d1", "create database d2", "create database bücher", "create table d1.t (id int auto_increment primary key, v int)"))
		r := startPooled(t, s, 2, nil)
		for _, addr := range []string{s.Addr, r.addr} { // the server has the password from then on
			dialPooled(t, addr, "", func(c *mysqlconn.Config) { c.User = testmysql.RootUser })
		}
		observer := dialPooled(t, s.Addr, "", nil)
		left := []string{
			"SET @a = 1", "SET sql_mode = 'ANSI_QUOTES', group_concat_max_len = 10", "CREATE TEMPORARY TABLE tt (a INT)", "SELECT GET_LOCK('l', 0)", "BEGIN",
			"INSERT INTO t (v) VALUES (5)", "PREPARE p FROM 'SELECT 1'",
		}
		state := []string{
			"SELECT CURRENT_USER(), DATABASE(), @a, LAST_INSERT_ID()", "SELECT COUNT(*) FROM d1.t", "SELECT * FROM d1.tt", "EXECUTE p", "SELECT 'a'", "SELECT IS_FREE_LOCK('l')",
			"SELECT @@sql_mode, @@group_concat_max_len, @@collation_connection", "INSERT INTO d1.t (v) VALUES (1)", "SELECT COUNT(*) FROM d1.t", "SELECT MAX(id) - LAST_INSERT_ID() FROM d1.t",
			"SELECT 1; SELECT 2",
		}
		for name, c := range map[string]struct {
			user, password, schema string
			charset                uint16
		}{
			"the same user": {testmysql.AppUser, testmysql.Password, "d1", 45}, "another user": {testmysql.RootUser, testmysql.Password, "d2", 8},
			"without a schema": {testmysql.RootUser, testmysql.Password, "", 224}, "a wrong password": {testmysql.RootUser, "wrong", "d2", 45},
			"an unknown schema": {testmysql.AppUser, testmysql.Password, "nowhere", 45},
			"a schema in Latin": {testmysql.AppUser, testmysql.Password, "bücher", 45}, "an unknown one": {testmysql.RootUser, testmysql.Password, "nö", 45},
		} {
			t.Run(name, func(t *testing.T) {
				var results [2][]string
				for i, addr := range []string{s.Addr, r.addr} {
					must(t, s.Exec("truncate d1.t"))
					testwait.Until(t, "the end of the session before", func() bool { return one(t, observer, "SELECT IS_FREE_LOCK('l')")[0] == "1" })
					w := &twin{worlds: [2]world{{"none", addr}}}
					w.clients[0] = dialPooled(t, addr, "d1", nil)
					for _, sql := range left {
						if o := w.run(t.Context(), 0, sql); o.err != "" {
							t.Fatalf("%s: %v", sql, o)
						}
					}
					must(t, w.clients[0].Send(t.Context(), mysqlwire.SetOption{Option: mysqlwire.OptionMultiStatementsOn}.AppendTo(nil)))
					err := changeSharedUser(w.clients[0], c.user, c.password, c.schema, c.charset)
					refused, _ := errors.AsType[*mysqlconn.ServerError](err)
					if err != nil && refused == nil {
						t.Fatal(err)
					}
					if refused != nil {
						results[i] = append(results[i], fmt.Sprint(refused.Number))
					}
					sql := "SELECT 1"
					if refused != nil {
						sql = "SET character_set_results = utf8mb4" // MariaDB 11.8 has another collation in results after a refusal
					}
					if o := w.run(t.Context(), 0, sql); o.err != "" {
						results[i] = append(results[i], "closed")
						continue
					}
					for _, sql := range state {
						o := w.raw(0, mysqlwire.AppendQuery(nil, []byte(sql), w.clients[0].Capabilities))
						results[i] = append(results[i], sql+": "+o.String())
					}
					variables, err := w.variables(t.Context(), 0)
					must(t, err)
					results[i] = append(results[i], variables...)
					w.clients[0].Close()
				}
				if want, got := strings.Join(results[0], "\n"), strings.Join(results[1], "\n"); got != want {
					t.Error(differences(want, got))
				}
			})
		}
		if pins := r.pins(t); len(pins) > 0 {
			t.Errorf("pins %v", pins)
		}
		c := dialPooled(t, r.addr, "", nil)
		if e := refusal(t, "a user without shared connections", changeSharedUser(c, "nobody", "", "", 45)); !strings.Contains(e.Message, "pool-accounts") {
			t.Errorf("error %v", e)
		}
	})
}

// TestPooledMethods has clients of accounts of MariaDB's methods share connections: clients authenticate at the gateway by
// mysql_native_password, and the gateway at the server by the account's method.
func TestPooledMethods(t *testing.T) {
	servers := map[string][]testmysql.Option{"MariaDB": nil}
	if dir := os.Getenv("TARE_MARIADB_DIR"); dir != "" {
		servers["MariaDB of TARE_MARIADB_DIR"] = []testmysql.Option{testmysql.WithPrograms(dir)}
	}
	for name, opts := range servers {
		t.Run(name, func(t *testing.T) {
			s := testmysql.Start(t, append(opts, testmysql.WithEd25519())...)
			methods := map[string]string{testmysql.EdUser: "ed25519"}
			if s.Exec("INSTALL SONAME 'auth_parsec'") == nil { // since MariaDB 11.6
				must(t, s.Exec("CREATE USER "+parsecUser+"@'%' IDENTIFIED VIA parsec USING PASSWORD('"+testmysql.Password+"')"))
				methods[parsecUser] = "parsec"
			}
			r := startPooled(t, s, 1, func(o *gateway.PoolOptions) {
				o.Password = func(user string) (string, bool) { return testmysql.Password, methods[user] != "" }
			})
			for user, method := range methods {
				var ids []string
				for range 2 {
					c := dialPooled(t, r.addr, "", func(c *mysqlconn.Config) { c.User = user })
					ids = append(ids, one(t, c, "select max(id) from information_schema.processlist where user = '"+user+"'")[0])
					if got := one(t, c, "select current_user()")[0]; got != user+"@%" {
						t.Errorf("%s: user %s", method, got)
					}
				}
				if ids[0] != ids[1] {
					t.Errorf("%s: connections %v, want one", method, ids)
				}
				_, err := dialShared(t, r.addr, "", func(c *mysqlconn.Config) { c.User, c.Password = user, "wrong" })
				if e := refusal(t, "a wrong password", err); e.Number != mysqlwire.ErrnoAccessDenied {
					t.Errorf("%s: error %v", method, e)
				}
				root := dialPooled(t, s.Addr, "", func(c *mysqlconn.Config) { c.User = testmysql.RootUser })
				if got := one(t, root, "select plugin from mysql.user where user = '"+user+"'")[0]; got != method {
					t.Errorf("the account is by %s, want %s", got, method)
				}
			}
		})
	}
}

// TestSharedChangeUserGuesses sends wrong passwords in one session: servers check at most three, and no right one afterwards. A collation that shared
// connections cannot have is refused.
func TestSharedChangeUserGuesses(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		c := dialPooled(t, startPooled(t, s, 1, nil).addr, "", nil)
		checked := 0
		for {
			err := changeSharedUser(c, testmysql.RootUser, "wrong", "", 45)
			refused, ok := errors.AsType[*mysqlconn.ServerError](err)
			if !ok || refused.Number != mysqlwire.ErrnoAccessDenied {
				break
			}
			if checked++; checked > 3 {
				t.Fatal("it checks more")
			}
		}
		if err := changeSharedUser(c, testmysql.RootUser, testmysql.Password, "", 45); checked == 0 || err == nil {
			t.Errorf("after %d wrong passwords: %v", checked, err)
		}
		c = dialPooled(t, startPooled(t, s, 1, nil).addr, "", nil)
		e := refusal(t, "a collation of more than eight bits", changeSharedUser(c, testmysql.AppUser, testmysql.Password, "", 309))
		if !strings.Contains(e.Message, "collation 309") {
			t.Errorf("error %v", e)
		}
	})
}

// TestLoginIsLearnedOnce has clients connect at once. The gateway reads the server's variables for one of them.
func TestLoginIsLearnedOnce(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		r := startPooled(t, s, 8, nil)
		var all errgroup.Group
		for range 8 {
			all.Go(func() error {
				c, err := dialShared(t, r.addr, "", nil)
				if err == nil {
					_, err = c.Exec(t.Context(), "BEGIN") // keeps a connection
				}
				return err
			})
		}
		must(t, all.Wait())
		direct, err := dialShared(t, s.Addr, "", nil)
		must(t, err)
		if got := one(t, direct, "SHOW GLOBAL STATUS LIKE 'Com_show_variables'")[1]; got != "3" {
			t.Errorf("%s statements SHOW VARIABLES, want 3: before a reset, after it, and after what restores the state", got)
		}
	})
}

// TestPooledReplica registers a client as a replica: the server lists it until the client has left.
func TestPooledReplica(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		r := startPooled(t, s, 1, nil)
		as := func(c *mysqlconn.Config) { c.User = testmysql.RootUser }
		c, other := dialPooled(t, r.addr, "", as), dialPooled(t, r.addr, "", as)
		command := append([]byte{byte(mysqlwire.ComRegisterReplica), 42, 0, 0, 0}, "\x01h\x01u\x01p"...)
		must(t, c.Send(t.Context(), append(command, make([]byte, 10)...)))
		direct := dialPooled(t, s.Addr, "", as)
		list := "show replicas"
		if strings.Contains(direct.ServerVersion, "MariaDB") {
			list = "show slave hosts"
		}
		listed := func() (found bool) {
			_, err := direct.Query(t.Context(), list, func(mysqlwire.TextRow) error { found = true; return nil })
			must(t, err)
			return found
		}
		if !listed() {
			t.Error("the server does not list the client")
		}
		testwait.Until(t, "the client to be pinned", func() bool {
			pins := r.Pinned()
			return len(pins) == 1 && strings.Contains(pins[0].Reason, "replica")
		})
		must(t, c.Close())
		one(t, other, "select 1")
		testwait.Until(t, "the server to unregister the client", func() bool { return !listed() })
	})
}
