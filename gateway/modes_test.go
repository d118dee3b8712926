package gateway_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
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

// TestModesQueryIsNotSeen reads the server's diagnostics of the previous statement after statements that make
// the modes unknown: an internal query in between would replace them.
func TestModesQueryIsNotSeen(t *testing.T) {
	s := testmysql.Shared(t)
	must(t, s.Exec(fmt.Sprintf("create table `%s`.t (a tinyint)", s.Name)))
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	value := func(sql string) (v string) {
		t.Helper()
		_, err := c.Query(t.Context(), sql, func(r mysqlwire.TextRow) error { v = string(r[0]); return nil })
		must(t, err)
		return v
	}
	for _, sql := range []string{"prepare s from 'insert into t values (1), (2)'", "execute s"} {
		_, err := testscript.Exec(t, c, sql)
		must(t, err)
	}
	if n := value("select Row_Count()"); n != "2" {
		t.Errorf("ROW_COUNT() is %s after an EXECUTE of two rows", n)
	}
	for _, sql := range []string{"prepare s from 'select 1/0'", "execute s"} {
		_, err := testscript.Exec(t, c, sql)
		must(t, err)
	}
	if level := value("show warnings"); level != "Warning" {
		t.Errorf("SHOW WARNINGS returned %q, want the division's warning", level)
	}
}
