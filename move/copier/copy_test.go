package copier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testgrpc"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

func root(s *testmysql.Server) mysqlconn.Config {
	return mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password}
}

func connect(t *testing.T, cfg mysqlconn.Config) *mysqlconn.Client {
	t.Helper()
	c, err := session.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func sqlExec(t *testing.T, c *mysqlconn.Client, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// read returns all rows of a statement, with quoted values.
func read(t *testing.T, c *mysqlconn.Client, sql string) []string {
	t.Helper()
	var got []string
	if _, err := c.Query(t.Context(), sql, func(row mysqlwire.TextRow) error {
		got = append(got, fmt.Sprintf("%q", row))
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

// A pair is a source and a target server for exclusive Use by one test, with a schema for the test.
type pair struct {
	from, to       *testmysql.Server
	source, target *mysqlconn.Client
	schema         string
	followed       int64 // changes, of TestFollow

	over func(context.Context) (binlog.Follower, error) // how the source is read; nil: directly
}

// newPair returns a pair for a test that may run in parallel with others, and for its subtests.
func newPair(t *testing.T, schema string) *pair {
	t.Helper()
	testmysql.SkipIfOff(t)
	if !servers.reserves(t) {
		t.Parallel()
	}
	return newPairAlone(t, schema)
}

// newPairAlone returns a pair for a test that must not run in parallel with others.
func newPairAlone(t *testing.T, schema string) *pair {
	t.Helper()
	testmysql.SkipIfOff(t)
	s := servers.hold(t)
	p := &pair{from: s.from, to: s.to, schema: schema}
	p.source, p.target = connect(t, root(p.from)), connect(t, root(p.to))
	sqlExec(t, p.source, "DROP DATABASE IF EXISTS "+schema, "CREATE DATABASE "+schema, "USE "+schema)
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS "+schema, "DROP DATABASE IF EXISTS _tare",
		"SET GLOBAL local_infile = 1, GLOBAL time_zone = 'SYSTEM', GLOBAL sql_mode = DEFAULT")
	return p
}

func (p *pair) options(tables ...string) copier.Options {
	o := copier.Options{From: copier.FromServer(root(p.from)), To: root(p.to)}
	if p.over != nil {
		o.From = p.over
	}
	for _, name := range tables {
		o.Tables = append(o.Tables, tabledef.Spec{Schema: p.schema, Name: name})
	}
	return o
}

// overTheWire returns Options.From for reading through a wire.Service, which runs until the test ends.
func overTheWire(t *testing.T, cfg mysqlconn.Config, c wire.Compression) func(context.Context) (binlog.Follower, error) {
	t.Helper()
	direct, err := binlog.OpenDirect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() }) // its connection may have been killed
	return copier.FromRemote(wire.RemoteOptions{Addr: serveRows(t, direct), Compression: c})
}

// serveRows serves a server's rows until the test ends, and returns the address.
func serveRows(t *testing.T, server rowstream.Server) string {
	t.Helper()
	service, err := wire.NewService(wire.ServiceOptions{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	return testgrpc.Serve(t, service.NewServer())
}

// same fails the test unless a table has the same definition and rows on both sides.
func (p *pair) same(t *testing.T, name string) {
	t.Helper()
	p.sameAs(t, name, p.schema)
}

// sameAs is same for a target table in another schema.
func (p *pair) sameAs(t *testing.T, name, schema string) {
	t.Helper()
	table := session.Ident(p.schema) + "." + session.Ident(name)
	there := session.Ident(schema) + "." + session.Ident(name)
	for _, sql := range []string{"SHOW CREATE TABLE " + table, p.checksum(t, name)} {
		want, got := read(t, p.source, sql), read(t, p.target, strings.ReplaceAll(sql, table, there))
		if diff := cmp.Diff(sortedKeys(want), sortedKeys(got)); diff != "" {
			t.Errorf("%s: %s", sql, diff)
		}
	}
}

// checksum returns a statement over all values of a table. (CHECKSUM TABLE of MariaDB 10.11 returns different
// numbers for the same table when columns are NULL.)
func (p *pair) checksum(t *testing.T, name string) string {
	t.Helper()
	table, err := rowstream.ReadTable(t.Context(), p.source, p.schema, name)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for i := range table.Columns {
		e := table.Columns[i].ReadExpr()
		parts = append(parts, "IF("+e+" IS NULL, 'N', CONCAT('V', HEX(CONCAT("+e+"))))")
	}
	row := "CONCAT_WS('#', " + strings.Join(parts, ", ") + ")"
	return "SELECT COUNT(*), SUM(CRC32(" + row + ")), BIT_XOR(CRC32(CONCAT(" + row + ", '#'))) FROM " + table.SQLName()
}

// sortedKeys sorts the lines of a definition, because indexes are built in a different order.
func sortedKeys(rows []string) []string {
	var lines []string
	for _, row := range rows {
		for line := range strings.SplitSeq(row, `\n`) {
			lines = append(lines, strings.TrimSuffix(line, ","))
		}
	}
	slices.Sort(lines)
	return lines
}

// runAfter calls Run after a run that was stopped or killed. It first waits until the server has released
// that run's lock, which it does when it detects the end of the session.
func runAfter(t *testing.T, o copier.Options) (report *copier.Report, err error) {
	t.Helper()
	testwait.Until(t, "the lock of the run before to be released", func() bool {
		report, err = copier.Run(t.Context(), o)
		return !errors.Is(err, state.ErrLocked)
	})
	return report, err
}

func TestCopy(t *testing.T) {
	p := newPair(t, "plain")
	sqlExec(t, p.source,
		"CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c VARCHAR(100) NOT NULL, UNIQUE KEY u (c), KEY k_1 (k), KEY `odd``name` (c, k))",
		"INSERT INTO a (k, c) SELECT seq % 17, CONCAT('row\\t', seq, '\\n\\\\') FROM seq_1_to_50000", "ANALYZE TABLE a",
		"CREATE TABLE empty (id INT PRIMARY KEY, x TEXT)")
	for _, how := range []string{"load", "insert"} {
		t.Run(how, func(t *testing.T) {
			sqlExec(t, p.target, "SET GLOBAL local_infile = "+map[string]string{"load": "1", "insert": "0"}[how])
			o := p.options("a", "empty")
			o.ChunkBytes = 100_000
			report, err := copier.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			p.same(t, "a")
			p.same(t, "empty")
			a := report.Tables[0]
			if a.Rows != 50000 || a.Chunks < 10 || a.Before != 0 || len(a.Indexes) != 2 || report.Tables[1].Rows != 0 {
				t.Errorf("%+v", report)
			}

			// Run again: there is nothing left to do.
			again, err := copier.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if b := again.Tables[0]; b.Rows != 50000 || b.Before != a.Chunks {
				t.Errorf("%+v", again)
			}

			// The rows that the state records were deleted.
			for _, change := range []func(*copier.Options){func(*copier.Options) {}, func(o *copier.Options) { o.Verify = true }, func(o *copier.Options) { o.ChunkBytes = 1 << 20 }} {
				sqlExec(t, p.target, "TRUNCATE TABLE plain.a")
				o := o
				change(&o)
				if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "resume the copy to plain.a: the state in the target records copied rows, but the table is empty") {
					t.Errorf("a copy to a table that was emptied: %v", err)
				}
			}
			sqlExec(t, p.target, "DROP DATABASE plain", "DROP DATABASE _tare")
		})
	}
}
