package gateway_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
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
		refusal(t, "a table without a schema", err)
		one(t, b, "select 1")
		_, err = a.Exec(t.Context(), "use stays")
		must(t, err)
		one(t, b, "select 1")
		if got := one(t, a, "select database()"); got[0] != "stays" {
			t.Errorf("the default schema is %q", got)
		}
	})
}

// TestPooledServerErrors has a statement fail as it is prepared on another connection: its client gets the server's error with its
// SQLSTATE, and the redacted log has no value of it.
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
						refusal(t, step, err)
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
