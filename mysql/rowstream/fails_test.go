package rowstream_test

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// errIncomplete is that of an operation that succeeds without its result.
var errIncomplete = errors.New("the result is not complete")

// chunksOf cuts and reads a whole table, and returns an error unless it has this number of rows in several chunks.
func chunksOf(ctx context.Context, r rowstream.Reader, table *rowstream.Table, want int64) error {
	var from rowstream.Chunk
	var n int64
	for {
		c, err := r.Cut(ctx, table, 20*table.RowBytes(), from)
		if err != nil {
			return err
		}
		for _, err := range r.Read(ctx, table, c, rowstream.ReadOptions{Count: &n}) {
			if err != nil {
				return err
			}
		}
		if c.Upto == nil {
			break
		}
		from = rowstream.Chunk{Number: c.Number + 1, After: c.Upto}
	}
	if n != want || from.Number < 2 {
		return errIncomplete
	}
	return nil
}

// sumsOf returns an error unless the sums have this number of rows.
func sumsOf(sums iter.Seq2[rowstream.RowSum, error], want int64) error {
	n := int64(0)
	for _, err := range sums {
		if err != nil {
			return err
		}
		n++
	}
	if n != want {
		return errIncomplete
	}
	return nil
}

// TestEachStatementFails has each statement of each operation on a server fail, one at a time: the operation returns the server's error.
// Without a fault its result is complete.
func TestEachStatementFails(t *testing.T) {
	const rows = 100
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testmysql.StartOrSkip(t, append(opts, testmysql.WithBinlog())...)
			cfg := testrows.Root(server)
			c := testrows.Connect(t, cfg)
			values := make([]string, rows)
			for i := range values {
				values[i] = "(" + strconv.Itoa(i) + ", " + strconv.Itoa(i%7) + ", 'k" + strconv.Itoa(i) + "')"
			}
			all := " VALUES " + strings.Join(values, ", ")
			testrows.Exec(t, c, "CREATE DATABASE d",
				"CREATE TABLE d.dense (id INT PRIMARY KEY, n INT, v VARBINARY(20), g INT AS (n + 1) STORED)", "INSERT INTO d.dense (id, n, v)"+all,
				"CREATE TABLE d.wide (id INT, n INT, v VARBINARY(20), PRIMARY KEY (n, v))", "INSERT INTO d.wide"+all,
				"CREATE TABLE d.sparse (id BIGINT PRIMARY KEY, n INT, v VARBINARY(20))", "INSERT INTO d.sparse SELECT id * 1000, n, v FROM d.wide",
				"CREATE TABLE d.few (id INT PRIMARY KEY, v INT)", "CREATE TRIGGER d.tr AFTER INSERT ON d.few FOR EACH ROW SET @a = 1")
			var tables []*rowstream.Table
			for _, name := range []string{"dense", "wide", "sparse"} {
				if _, err := c.Query(t.Context(), "ANALYZE TABLE d."+name, nil); err != nil {
					t.Fatal(err)
				}
				table, err := rowstream.ReadTable(t.Context(), c, "d", name)
				if err != nil {
					t.Fatal(err)
				}
				tables = append(tables, table)
			}
			proxy := testproxy.StartFaulty(t, server.Addr)
			cfg.Addr, cfg.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
			identity, err := session.ServerIdentity(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			lookup := &rowstream.Lookup{Name: "l"}
			for i := range 7 {
				if err := lookup.Add([]byte(strconv.Itoa(i)), i%2); err != nil {
					t.Fatal(err)
				}
			}
			here := rowstream.SumOptions{Columns: []int{0, 2}, Plan: &rowstream.Plan{Where: []rowstream.Condition{{Column: 1, Lookup: lookup, Number: 0}}}}
			const settings = "SELECT VERSION(), CONNECTION_ID(),"    // sent again with each variable that the server does not have
			const processes = "SELECT ID, COALESCE(STATE, '') FROM " // SHOW PROCESSLIST is in its place
			notReplacement := "SHOW MASTER STATUS"
			if name == "MariaDB" {
				notReplacement = "SHOW BINARY LOG STATUS"
			}
			on := func(do func(ctx context.Context, c *mysqlconn.Client) error) func(context.Context) error {
				return func(ctx context.Context) error {
					c, err := session.Connect(ctx, cfg)
					if err != nil {
						return err
					}
					return errors.Join(do(ctx, c), c.Close())
				}
			}
			view := func(do func(ctx context.Context, r rowstream.ViewReader) error) func(context.Context) error {
				return func(ctx context.Context) error {
					d, err := rowstream.OpenDirect(ctx, cfg)
					if err != nil {
						return err
					}
					defer func() { _ = d.Close() }()
					v, err := d.Snapshot(ctx, 1, tables)
					if err != nil {
						return err
					}
					return errors.Join(do(ctx, v.Reader(0)), v.Close())
				}
			}
			for what, do := range map[string]func(ctx context.Context) error{
				"describe": on(func(ctx context.Context, c *mysqlconn.Client) error {
					table, err := rowstream.ReadTable(ctx, c, "d", "few")
					if err == nil && (table.KeyName != "PRIMARY" || len(table.Triggers) != 1 || len(table.Columns) != 2 || table.Create == "") {
						err = errIncomplete
					}
					return err
				}),
				"describe and ask": func(ctx context.Context) error {
					d, err := rowstream.OpenDirect(ctx, cfg)
					if err != nil {
						return err
					}
					table, err := d.Describe(ctx, "d", "few")
					who := ""
					if err == nil {
						who, err = d.Identity(ctx)
					}
					if err == nil {
						err = d.Ping(ctx)
					}
					if err == nil && (who != identity || table.KeyName == "") {
						err = errIncomplete
					}
					return errors.Join(err, d.Close())
				},
				"logging": on(func(ctx context.Context, c *mysqlconn.Client) error {
					l, err := session.ReadLogging(ctx, c)
					if err == nil {
						err = errors.Join(l.CheckLogged([]string{"d"}), l.ChannelsErr)
					}
					return err
				}),
				"same server": on(func(ctx context.Context, c *mysqlconn.Client) error {
					same, err := session.IsServer(ctx, c, cfg, cfg.Addr)
					if err == nil && !same {
						err = errIncomplete
					}
					return err
				}),
				"limits": on(func(ctx context.Context, c *mysqlconn.Client) error {
					err := session.LimitLocks(ctx, c, time.Second, time.Minute)
					if err == nil {
						err = rowstream.CheckSums(ctx, c)
					}
					exists := false
					if err == nil {
						_, exists, err = session.State(ctx, c, strconv.FormatUint(uint64(c.ConnectionID), 10))
					}
					if err == nil && !exists {
						err = errIncomplete
					}
					return err
				}),
				"watchdog": on(func(ctx context.Context, c *mysqlconn.Client) error {
					w, err := session.OpenWatchdog(ctx, cfg, c)
					if err != nil {
						return err
					}
					defer w.Close()
					return w.Start(ctx, time.Hour)
				}),
				"in a snapshot": on(func(ctx context.Context, c *mysqlconn.Client) error {
					return session.InSnapshot(ctx, c, func() error {
						n, err := session.QueryValue(ctx, c, "SELECT COUNT(*) FROM d.dense")
						if err == nil && n != strconv.Itoa(rows) {
							err = errIncomplete
						}
						return err
					})
				}),
				"position": on(func(ctx context.Context, c *mysqlconn.Client) error {
					here, err := session.CurrentPosition(ctx, c)
					seen := ""
					if err == nil {
						seen, err = session.ReadPosition(ctx, c)
					}
					if err == nil && (here == "" || seen == "") {
						err = errIncomplete
					}
					return err
				}),
				"chunks": view(func(ctx context.Context, r rowstream.ViewReader) error {
					for _, table := range tables {
						if err := chunksOf(ctx, r, table, rows); err != nil {
							return err
						}
						if key, err := r.LastKey(ctx, table); err != nil || len(key) != len(table.Key) {
							return errors.Join(err, errIncomplete)
						}
					}
					return nil
				}),
				"sums": view(func(ctx context.Context, r rowstream.ViewReader) error {
					for _, table := range tables {
						o := rowstream.SumOptions{Columns: []int{0, 2}, Where: "n < 100"}
						if sum, err := rowstream.SumChunk(ctx, r, table, rowstream.Chunk{}, o); err != nil || sum.Rows != rows {
							return errors.Join(err, errIncomplete)
						}
						if err := sumsOf(rowstream.SumRows(ctx, r, table, rowstream.Chunk{}, o), rows); err != nil {
							return err
						}
						const some = 57 // rows whose n is even
						if sum, err := rowstream.SumChunk(ctx, r, table, rowstream.Chunk{}, here); err != nil || sum.Rows != some {
							return errors.Join(err, errIncomplete)
						}
						if err := sumsOf(rowstream.SumRows(ctx, r, table, rowstream.Chunk{}, here), some); err != nil {
							return err
						}
					}
					return nil
				}),
				"short views": func(ctx context.Context) error {
					d, err := rowstream.OpenDirect(ctx, cfg)
					if err != nil {
						return err
					}
					r := rowstream.NewShortReader(rowstream.ShortOptions{Server: d, Identity: identity, MaxAge: time.Hour})
					for _, table := range tables[:2] {
						if err == nil {
							err = chunksOf(ctx, r, table, rows)
						}
					}
					return errors.Join(err, r.Close(), d.Close())
				},
			} {
				t.Run(what, func(t *testing.T) {
					proxy.EachFails(t, func() error { return do(t.Context()) }, notReplacement, settings, processes)
				})
			}
		})
	}
}
