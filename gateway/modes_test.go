package gateway_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestModesFollowTheServer changes the character set and the sql_mode in ways that a statement's text does
// not show, without rules: at each statement the mode is the server's, or unknown.
func TestModesFollowTheServer(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			opts = append(opts, testmysql.WithArgs("--sql-mode=ANSI_QUOTES", "--init-connect=SET NAMES gbk"))
			s := testmysql.StartOrSkip(t, opts...)
			g := startGateway(t, s.Addr, nil)
			for _, sets := range [][]string{
				{"do 0"}, // the server's settings, and init_connect
				{"set names gbk, character_set_client = utf8mb4"},
				{"set names gbk, @x = 1"},
				{"set names utf8mb4", "set character_set_results = NULL"},
				{"set character_set_client = 28"},
				{"set character_set_client = 0x67626b"},
				{"set @x = 'gbk'", "set character_set_client = @x"},
				{"set @x = ''", "set sql_mode = @x"},
				{"set sql_mode = concat('ANSI', '_QUOTES')"},
				{"set @@sql_mode = 4"},
				{"prepare s from 'set names gbk'", "execute s"},
				{"prepare s from 'set sql_mode = 0'", "execute s"},
				{"!set sql_mode = '', no_such_variable = 1"},
				{"!set sql_mode = '', max_join_size = (select 1 union select 2)"},
				{"binary set sql_mode = 'NO_BACKSLASH_ESCAPES'"},
				{"binary set names gbk"},
				{"use mysql", "use test"},
				{"binary use mysql"},
				{"!use mysql; nonsense"},
				{"!use no_such_schema"},
				{"!set statement max_statement_time = 10 for use mysql"},
				{"!begin not atomic use mysql; end"},
				{"!execute immediate 'use mysql'"},
			} {
				c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
					Addr: g.addr, User: testmysql.AppUser, Password: testmysql.Password,
					Database: "test", TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true}, Capabilities: mysqlwire.CapMultiStatements,
				})
				must(t, err)
				for _, sql := range sets {
					set(t, c, sql)
				}
				var charset, sqlMode, schema string
				_, err = c.Query(t.Context(), "select @@character_set_client, @@sql_mode, database()", func(r mysqlwire.TextRow) error {
					charset, sqlMode, schema = string(r[0]), string(r[1]), string(r[2])
					return nil
				})
				must(t, err)
				mode := g.modeOf(t, c)
				want := sqldigest.Mode(0).WithServer(mode.Server()).WithCharset(sqldigest.CharsetNamed([]byte(charset))).WithSQLMode([]byte(sqlMode))
				if mode != want {
					t.Errorf("%s: mode %b, want %b (%s, %s)", strings.Join(sets, "; "), mode, want, charset, sqlMode)
				}
				if got := g.schemaOf(t, c); got != schema {
					t.Errorf("%s: schema %q, want %q", strings.Join(sets, "; "), got, schema)
				}
				must(t, c.Close())
			}
		})
	}
}

// set runs a statement: after "!" it may fail, after "binary " it is prepared by the protocol if the server
// supports that.
func set(t *testing.T, c *mysqlconn.Client, sql string) {
	t.Helper()
	if text, ok := strings.CutPrefix(sql, "binary "); ok {
		p, err := c.Prepare(t.Context(), []byte(text))
		if err == nil {
			id := binary.LittleEndian.AppendUint32([]byte{byte(mysqlwire.ComStmtExecute)}, p.StatementID)
			command(t, c, append(id, 0, 1, 0, 0, 0), func([]byte) bool { return true })
		}
		return
	}
	text, mayFail := strings.CutPrefix(sql, "!")
	if _, err := c.Exec(t.Context(), text); err != nil && !mayFail {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r *rig) schemaOf(t *testing.T, c *mysqlconn.Client) string {
	t.Helper()
	idle(t, r)
	schema, _ := r.Modes(c.ConnectionID)
	return schema
}

// modeOf returns the mode of a client's waiting session.
func (r *rig) modeOf(t *testing.T, c *mysqlconn.Client) sqldigest.Mode {
	t.Helper()
	idle(t, r)
	_, mode := r.Modes(c.ConnectionID)
	return mode
}

// TestModesQueryIsNotSeen reads what a server keeps of the previous statement, directly and through the gateway, after
// statements that make the modes unknown: an internal query in between would replace it.
func TestModesQueryIsNotSeen(t *testing.T) {
	servers := refusalServers(t)
	servers["MySQL"] = []testmysql.Option{testmysql.WithMySQL()}
	for name, options := range servers {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, options...)
			must(t, s.Exec("create database d", "create table d.t (a tinyint)", "create procedure d.p() insert into t values (1), (2), (3)"))
			g := startGateway(t, s.Addr, nil)
			dial := func(addr string) *mysqlconn.Client {
				c := dialRoot(t, addr)
				_, err := testscript.Exec(t, c, "use d")
				must(t, err)
				return c
			}
			for _, read := range lastReads {
				for _, after := range []string{"execute rows_and_warning", "execute changes", "call p()"} {
					for how, run := range readings {
						direct := run(t, dial(s.Addr), after, read)
						if through := run(t, dial(g.addr), after, read); through != direct {
							t.Errorf("%s after %s, %s: %q, want %q", read, after, how, through, direct)
						}
					}
				}
			}
		})
	}
}

// lastReads read what the servers keep of the previous statement. Columns that differ between runs are left out.
var lastReads = []string{
	"select Row_Count()", "select found_rows()", "show warnings", "show errors", "show count(*) warnings",
	"select @@warning_count", "select @@error_count", "select last_insert_id()",
	"select query from information_schema.optimizer_trace",
	"select count(*) from information_schema.profiling", "show status like 'last_query_cost'",
}

// readings are the ways of sending a statement that reads what the one before it has left.
var readings = map[string]func(t *testing.T, c *mysqlconn.Client, after, read string) string{
	"as text": func(t *testing.T, c *mysqlconn.Client, after, read string) string {
		leave(t, c, after)
		return responseTo(t, c, read)
	},
	"prepared after it": func(t *testing.T, c *mysqlconn.Client, after, read string) string {
		leave(t, c, after)
		id, err := prepared(t, c, read)
		if err != nil {
			return err.Error()
		}
		return executed(t, c, id)
	},
	"prepared before it": func(t *testing.T, c *mysqlconn.Client, after, read string) string {
		id, err := prepared(t, c, read)
		if err != nil { // not a command that can be prepared
			return err.Error()
		}
		leave(t, c, after)
		return executed(t, c, id)
	},
}

// leave enables what a session can keep, and runs a statement.
func leave(t *testing.T, c *mysqlconn.Client, sql string) {
	t.Helper()
	for _, sql := range []string{
		"set profiling = 1", "set optimizer_trace = 'enabled=on'",
		"prepare rows_and_warning from 'select 1/0, a from t union all select 2, 3 limit 2'", "prepare changes from 'insert into t values (1), (2)'",
		"select 1", sql,
	} {
		_, err := testscript.Exec(t, c, sql)
		must(t, err)
	}
}

func prepared(t *testing.T, c *mysqlconn.Client, sql string) (id uint32, err error) {
	t.Helper()
	ok, err := c.Prepare(t.Context(), []byte(sql))
	return ok.StatementID, err
}

// executed is the response to the execution of a prepared statement.
func executed(t *testing.T, c *mysqlconn.Client, id uint32) (rows string) {
	t.Helper()
	_, err := c.Execute(t.Context(), id, nil, func(p []byte) error {
		rows += fmt.Sprintf("%q\n", p)
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return rows
}

// responseTo is the response to a text.
func responseTo(t *testing.T, c *mysqlconn.Client, sql string) (rows string) {
	t.Helper()
	_, err := c.Query(t.Context(), sql, func(r mysqlwire.TextRow) error {
		rows += fmt.Sprintf("%q\n", r)
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return rows
}

// TestErrorNumbers has the servers report errors of the least and greatest numbers: a session continues after each.
func TestErrorNumbers(t *testing.T) {
	servers := refusalServers(t)
	servers["MySQL"] = []testmysql.Option{testmysql.WithMySQL()}
	for name, options := range servers {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, options...)
			g := startGateway(t, s.Addr, nil)
			direct, through := dialRoot(t, s.Addr), dialRoot(t, g.addr)
			for _, number := range []int{1, 2, 255, 256, 65279, 65280, 65534, 65535, 65536} {
				sql := fmt.Sprintf("signal sqlstate 'HY000' set mysql_errno = %d", number)
				_, want := testscript.Exec(t, direct, sql)
				if _, err := testscript.Exec(t, through, sql); fmt.Sprint(err) != fmt.Sprint(want) {
					t.Errorf("%d: %v, want %v", number, err, want)
				}
				if _, err := testscript.Exec(t, through, "select 1"); err != nil {
					t.Fatalf("after %d: %v", number, err)
				}
			}
		})
	}
}
