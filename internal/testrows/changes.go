package testrows

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Direct opens a server.
func Direct(t *testing.T, cfg mysqlconn.Config) *binlog.Direct {
	t.Helper()
	d, err := binlog.OpenDirect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Now returns the end of the log, with a GTID on demand.
func Now(t *testing.T, d *binlog.Direct, gtid bool) binlog.Position {
	t.Helper()
	end := d.CurrentPosition
	if gtid {
		end = d.GTIDPosition
	}
	p, err := end(t.Context())
	if err != nil || gtid && p.GTID == "" {
		t.Fatalf("the log ends at %v: %v", p, err)
	}
	return p
}

// Follow follows tables.
func Follow(t *testing.T, d binlog.Follower, o binlog.FollowOptions) binlog.Changes {
	t.Helper()
	if err := d.CheckFollow(t.Context(), o.Tables, o.From); err != nil {
		t.Fatal(err)
	}
	c, err := d.Follow(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// A Seen is a change with its rows.
type Seen struct {
	Table         int // index in the options
	Kind          binlog.ChangeKind
	Before, After mysqlwire.TextRow // nil without such an image
	Last          bool              // of its transaction
}

func (s Seen) String() string {
	text := fmt.Sprintf("%d %v", s.Table, s.Kind)
	if s.Before != nil {
		text += fmt.Sprintf(" %q", s.Before)
	}
	if s.After != nil {
		text += fmt.Sprintf(" -> %q", s.After)
	}
	if s.Last {
		text += "."
	}
	return text
}

// ChangesOf returns the changes of a batch with copies of their rows.
func ChangesOf(t *testing.T, b *binlog.ChangeBatch) (all []Seen) {
	t.Helper()
	for i := range b.Tables {
		if err := b.Tables[i].Check(); err != nil {
			t.Fatalf("table %d: %v", i, err)
		}
	}
	images := make([]int, len(b.Tables))
	image := func(table int32, at int) mysqlwire.TextRow {
		if at < 0 {
			return nil
		}
		var view, row mysqlwire.TextRow
		if _, err := b.Tables[table].Row(at, &view); err != nil {
			t.Fatal(err)
		}
		if err := row.Decode(view.AppendTo(nil), len(view)); err != nil {
			t.Fatal(err)
		}
		images[table]++
		return row
	}
	for _, c := range b.Changes {
		all = append(all, Seen{int(c.Table), c.Kind, image(c.Table, c.Before), image(c.Table, c.After), c.LastOfTransaction})
	}
	for i, n := range images {
		if n != b.Tables[i].Rows {
			t.Errorf("table %d: the changes have %d images, the batch %d rows", i, n, b.Tables[i].Rows)
		}
	}
	return all
}

// Until reads changes up to a position.
func Until(t *testing.T, c binlog.Changes, p binlog.Position) (all []Seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	var b binlog.ChangeBatch
	for {
		if err := c.Next(ctx, &b); err != nil {
			t.Fatalf("after %d changes up to %v: %v", len(all), b.Upto, err)
		}
		all = append(all, ChangesOf(t, &b)...)
		if b.Boundary && b.Upto.Compare(p) >= 0 {
			return all
		}
	}
}

// UntilStop returns the changes read before reading stops.
func UntilStop(t *testing.T, d binlog.Follower, o binlog.FollowOptions) (got []string, stop *binlog.StopError) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	changes, err := d.Follow(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = changes.Close() }()
	var b binlog.ChangeBatch
	for {
		err := changes.Next(ctx, &b)
		if errors.As(err, &stop) {
			return got, stop
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, Texts(ChangesOf(t, &b))...)
	}
}

// Texts returns the changes as text.
func Texts(all []Seen) (lines []string) {
	for _, s := range all {
		lines = append(lines, s.String())
	}
	return lines
}

// FollowServer starts a server with tables in a schema f; tables are a and b of these.
func FollowServer(t *testing.T, args ...string) (server *testmysql.Server, d *binlog.Direct, c *mysqlconn.Client, tables []*rowstream.Table) {
	t.Helper()
	server = testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithArgs(args...))
	d, c = Direct(t, Root(server)), Connect(t, Root(server))
	Exec(t, c, "CREATE DATABASE f", "CREATE DATABASE other",
		"CREATE TABLE f.a (id INT PRIMARY KEY, n INT, s VARCHAR(100))", "CREATE TABLE f.b (id INT PRIMARY KEY, s TEXT)",
		"CREATE TABLE f.c (id INT PRIMARY KEY)", "CREATE TABLE f.mine (id INT) ENGINE=MyISAM", "CREATE TABLE other.a (id INT PRIMARY KEY)", "USE f")
	for _, name := range []string{"a", "b"} {
		table, err := d.Describe(t.Context(), "f", name)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	return server, d, c, tables
}

// XAServers runs a test about XA on each product, MySQL if it is installed: with two connections and table a of
// schema f.
func XAServers(t *testing.T, test func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table)) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testmysql.StartOrSkip(t, append(opts, testmysql.WithBinlog())...)
			d := Direct(t, Root(server))
			first, second := Connect(t, Root(server)), Connect(t, Root(server))
			exec1 := func(sql ...string) { Exec(t, first, sql...) }
			exec1("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "CREATE DATABASE f", "USE f", "CREATE TABLE a (id INT PRIMARY KEY, n INT, s VARCHAR(100))", "CREATE TABLE c (id INT PRIMARY KEY)")
			Exec(t, second, "USE f")
			table, err := d.Describe(t.Context(), "f", "a")
			if err != nil {
				t.Fatal(err)
			}
			test(t, d, exec1, func(sql ...string) { Exec(t, second, sql...) }, []*rowstream.Table{table})
		})
	}
}
