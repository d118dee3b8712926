package rowstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// followServer is a server with two tables in a schema of the test's own.
func followServer(t *testing.T, args ...string) (server *testmysql.Server, d *LogServer, c *mysqlconn.Client, tables []*Table) {
	t.Helper()
	server = testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithArgs(args...))
	d, c = direct(t, root(server)), connect(t, root(server))
	exec(t, c, "CREATE DATABASE f", "CREATE DATABASE other",
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

func TestFollowTransactions(t *testing.T) {
	_, d, c, tables := followServer(t)
	for _, gtid := range []bool{false, true} {
		t.Run(fmt.Sprintf("gtid %v", gtid), func(t *testing.T) {
			exec(t, c, "DELETE FROM a", "DELETE FROM b")
			from := now(t, d, gtid)
			exec(t, c, "DROP TABLE IF EXISTS other.b", "ALTER TABLE c DROP COLUMN IF EXISTS a")
			exec(t, c, "INSERT INTO a VALUES (1, 10, 'x'), (2, 20, NULL)",
				"BEGIN", "UPDATE a SET n = 11 WHERE id = 1", "INSERT INTO b VALUES (1, 'é')", "INSERT INTO c (id) VALUES (1) ON DUPLICATE KEY UPDATE id = id", "DELETE FROM a WHERE id = 2", "COMMIT",
				"INSERT INTO other.a VALUES (1) ON DUPLICATE KEY UPDATE id = id",
				"BEGIN", "INSERT INTO b VALUES (2, 'kept')", "SAVEPOINT s", "INSERT INTO b VALUES (3, 'gone')", "INSERT INTO mine VALUES (1)", "ROLLBACK TO s", "INSERT INTO b VALUES (4, 'kept')", "COMMIT",
				"BEGIN", "INSERT INTO a VALUES (9, 9, 'gone')", "ROLLBACK",
				"FLUSH BINARY LOGS",
				"ALTER TABLE c ADD COLUMN IF NOT EXISTS a INT", "CREATE OR REPLACE TABLE other.b (a INT)", "CREATE TEMPORARY TABLE b (id INT)", "INSERT INTO b VALUES (7)", "DROP TEMPORARY TABLE b",
				"CREATE TABLE IF NOT EXISTS a (x INT)", "ANALYZE TABLE a", "CREATE OR REPLACE VIEW w AS SELECT * FROM a",
				"REPLACE INTO a VALUES (1, 12, 'z')")
			to := now(t, d, gtid)
			want := []string{
				`0 insert -> ["1" "10" "x"]`, `0 insert -> ["2" "20" ""].`,
				`0 update ["1" "10" "x"] -> ["1" "11" "x"]`, `1 insert -> ["1" "é"]`, `0 delete ["2" "20" ""].`,
				`1 insert -> ["2" "kept"]`, `1 insert -> ["4" "kept"].`,
				`0 update ["1" "11" "x"] -> ["1" "12" "z"].`,
			}
			for name, f := range followers(t, d) {
				got := until(t, follow(t, f, FollowOptions{From: from, Tables: tables}), to)
				if diff := cmp.Diff(want, texts(got)); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			// A row a batch: one that is handed out cannot be undone.
			changes := follow(t, d, FollowOptions{From: from, Tables: tables, BatchBytes: 1})
			var b ChangeBatch
			var got []seen
			var err error
			for err == nil {
				if err = changes.Next(t.Context(), &b); err == nil {
					got = append(got, changesOf(t, &b)...)
				}
			}
			var stop *StopError
			if !errors.As(err, &stop) || stop.Reason != StopUndone || len(got) != 7 {
				t.Errorf("%v, %v", texts(got), err)
			}
		})
	}
}

// TestFollowPlan filters and projects both images of each change.
func TestFollowPlan(t *testing.T) {
	_, d, c, tables := followServer(t)
	from := now(t, d, false)
	plan := &Plan{
		Match:  &Predicate{Op: GreaterOrEqual, Column: 1, Compare: Number, Values: values("10")},
		Output: []Output{{Column: 2}, {From: FixedValue, Value: []byte("f")}, {Column: 0}},
	}
	exec(t, c, "INSERT INTO a VALUES (1, 10, 'in'), (2, 9, 'out'), (3, NULL, 'unknown')",
		"UPDATE a SET n = 9 WHERE id = 1", "UPDATE a SET n = 10 WHERE id = 2", "UPDATE a SET s = 'still in' WHERE id = 2", "UPDATE a SET s = 'still out' WHERE id = 1",
		"DELETE FROM a WHERE id <> 2", "DELETE FROM a")
	want := []string{
		`0 insert -> ["in" "f" "1"].`, `0 delete ["in" "f" "1"].`, `0 insert -> ["out" "f" "2"].`,
		`0 update ["out" "f" "2"] -> ["still in" "f" "2"].`, `0 delete ["still in" "f" "2"].`,
	}
	for name, f := range followers(t, d) {
		got := texts(until(t, follow(t, f, FollowOptions{From: from, Tables: tables, Plans: []*Plan{plan}}), now(t, d, false)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestFollowBefore reads changes whose images before are needed with the key alone, as they are and by a plan that looks at
// another column.
func TestFollowBefore(t *testing.T) {
	_, d, c, tables := followServer(t)
	from := now(t, d, false)
	exec(t, c, "INSERT INTO a VALUES (1, 10, 'one'), (2, NULL, 'two')", "UPDATE a SET s = 'changed' WHERE id = 1", "UPDATE a SET id = 3, n = 5 WHERE id = 1", "DELETE FROM a WHERE id = 3")
	to := now(t, d, false)
	nulls := func(row mysqlwire.TextRow, but int) {
		for i := range row {
			if i != but {
				row[i] = nil
			}
		}
	}
	for name, tt := range map[string]struct {
		plan *Plan
		key  int
	}{
		"as they are": {key: 0},
		"by a plan": {key: 1, plan: &Plan{
			Match:  &Predicate{Op: GreaterOrEqual, Column: 1, Compare: Number, Values: values("10")},
			Output: []Output{{Column: 2}, {Column: 0}},
		}},
	} {
		o := FollowOptions{From: from, Tables: tables, Plans: []*Plan{tt.plan}}
		want := until(t, follow(t, d, o), to)
		for i := range want {
			nulls(want[i].before, tt.key)
		}
		o.Before = [][]int{{tt.key}}
		if diff := cmp.Diff(texts(want), texts(until(t, follow(t, d, o), to))); diff != "" || len(want) < 2 {
			t.Errorf("%s: %d changes: %s", name, len(want), diff)
		}
	}
}

// TestFollowStops has happen what cannot be followed: the reading hands out what was before it,
// stops there, and again when it is tried from there.
func TestFollowStops(t *testing.T) {
	_, d, c, tables := followServer(t)
	both := followers(t, d)
	again := []string{"SET SESSION binlog_format = ROW, binlog_row_image = FULL", "CREATE OR REPLACE TABLE a (id INT PRIMARY KEY, n INT, s VARCHAR(100))"}
	for _, tt := range []struct {
		reason StopReason
		table  string
		sql    []string
		want   string
	}{
		{StopSchema, "f.a", []string{"ALTER TABLE a ADD COLUMN x INT"}, "ALTER TABLE a ADD COLUMN x INT"},
		{StopSchema, "f.a", []string{"USE other", "ALTER TABLE f.a COMMENT 'x'", "USE f"}, "ALTER TABLE f.a"},
		{StopSchema, "f.a", []string{"TRUNCATE a"}, "TRUNCATE"},
		{StopSchema, "f.a", []string{"RENAME TABLE `f`.`a` TO other.z", "DROP TABLE other.z"}, "RENAME TABLE"},
		{StopSchema, "f.a", []string{"DROP TABLE a"}, "DROP TABLE"},
		{StopSchema, "f.a", []string{"CREATE INDEX i ON a (n)"}, "CREATE INDEX"},
		{StopSchema, "f.a", []string{"CREATE OR REPLACE TABLE a (id INT)"}, "CREATE OR REPLACE"},
		{StopStatement, "", []string{"SET SESSION binlog_format = STATEMENT", "UPDATE a SET n = n + 1"}, "binlog_format = ROW"},
		{StopStatement, "", []string{"SET SESSION binlog_format = STATEMENT", "BEGIN", "INSERT INTO a VALUES (8, 8, 'secret')", "COMMIT"}, "copy the table again with --restart"},
		{StopStatement, "", []string{"SET SESSION binlog_format = STATEMENT", "INSERT INTO other.a SELECT id + 7 FROM a"}, "--ignore-statement"},
		{StopSchema, "f.a", []string{"SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE TABLE f.a"}, "TRUNCATE"},
		{StopImage, "f.a", []string{"SET SESSION binlog_row_image = MINIMAL", "UPDATE a SET n = 77"}, "binlog_row_image = FULL"},
	} {
		exec(t, c, again...)
		from := now(t, d, false)
		exec(t, c, "INSERT INTO a VALUES (1, 1, 'before')")
		at := now(t, d, false)
		exec(t, c, tt.sql...)
		exec(t, c, again...)
		exec(t, c, "INSERT INTO a VALUES (1, 1, 'after')")
		for i, from := range []Position{from, at, from} {
			changes := follow(t, both[[]string{"direct", "direct", "remote"}[i]], FollowOptions{From: from, Tables: tables})
			var b ChangeBatch
			var err error
			n := 0
			for err == nil {
				if err = changes.Next(t.Context(), &b); err == nil {
					n += len(b.Changes)
				}
			}
			var stop *StopError
			if !errors.As(err, &stop) || stop.Reason != tt.reason || stop.Table != tt.table || stop.At.Compare(at) < 0 || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: error %v (%+v), at %v", tt.sql, err, stop, at)
			}
			if (n == 1) != (from != at) {
				t.Errorf("%v: %d changes before it", tt.sql, n)
			}
			if err := changes.Next(t.Context(), &b); stop != nil && !errors.Is(err, stop) {
				t.Errorf("once more: %v", err)
			}
		}
	}
	exec(t, c, again...)
	from := now(t, d, false)
	exec(t, c, "BEGIN", "INSERT INTO a VALUES (1, 1, 'one phase')", "COMMIT", "XA START 'y'", "INSERT INTO a VALUES (2, 2, '')", "XA END 'y'", "XA COMMIT 'y' ONE PHASE",
		"SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE TABLE other.a")
	if got := until(t, follow(t, d, FollowOptions{From: from, Tables: tables}), now(t, d, false)); len(got) != 2 {
		t.Errorf("%v", texts(got))
	}
}

// TestFollowLost kills the reader's connection again and again, and the server, while large and
// small transactions are written: each change comes once and in order.
func TestFollowLost(t *testing.T) {
	for _, gtid := range []bool{false, true} {
		t.Run(fmt.Sprintf("gtid %v", gtid), func(t *testing.T) {
			t.Parallel()
			server, d, c, tables := followServer(t)
			from := now(t, d, gtid)
			changes := follow(t, d, FollowOptions{From: from, Tables: tables, BatchBytes: 20_000, ServerID: 77})
			r := testseed.Rand(t)
			id := 0
			write := func() {
				exec(t, c, "BEGIN")
				for range 1 + r.IntN(8) {
					var rows []string
					for range 1 + r.IntN(400) {
						id++
						rows = append(rows, fmt.Sprintf("(%d, %d, REPEAT('x', %d))", id, id, r.IntN(100)))
					}
					exec(t, c, "INSERT INTO a VALUES "+strings.Join(rows, ", "))
				}
				exec(t, c, "COMMIT")
			}
			var b ChangeBatch
			next, split, resumed := 0, 0, from
			read := func() {
				ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
				defer cancel()
				if err := changes.Next(ctx, &b); err != nil {
					t.Fatal(err)
				}
				for _, s := range changesOf(t, &b) {
					if next++; s.kind != Insert || string(s.after[0]) != fmt.Sprint(next) {
						t.Fatalf("change %d is %v", next, s)
					}
				}
				if !b.Boundary {
					split++
					if b.Upto.Compare(resumed) < 0 {
						t.Fatalf("after %v the place to go on from is %v", resumed, b.Upto)
					}
				}
				resumed = b.Upto
			}
			for round := range 12 {
				write()
				for range r.IntN(6) {
					read()
				}
				if round == 6 {
					if err := server.Kill(); err != nil {
						t.Fatal(err)
					}
					if err := server.Restart(); err != nil {
						t.Fatal(err)
					}
					c = connect(t, root(server))
					exec(t, c, "USE f")
					continue
				}
				for _, thread := range column(t, c, "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'") {
					exec(t, c, "KILL "+thread)
				}
			}
			to := now(t, d, false)
			for !b.Boundary || b.Upto.Compare(to) < 0 {
				read()
			}
			if next != id || split == 0 {
				t.Errorf("%d changes of %d, %d batches within a transaction", next, id, split)
			}
			if gtid != (b.Upto.GTID != "") {
				t.Errorf("the end is %v", b.Upto)
			}
			if gtid {
				want := column(t, c, "SELECT @@gtid_binlog_pos")
				if b.Upto.GTID != want[0] {
					t.Errorf("the end is %v, the server's GTID %v", b.Upto, want)
				}
			}
		})
	}
}

func TestFollowEnds(t *testing.T) {
	server, d, c, tables := followServer(t)
	from := now(t, d, false)
	changes := follow(t, d, FollowOptions{From: from, Tables: tables, Heartbeat: 100 * time.Millisecond})
	var b ChangeBatch
	for !b.Idle {
		if err := changes.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	if !b.Boundary || len(b.Changes) != 0 || b.Upto.Compare(now(t, d, false)) != 0 {
		t.Errorf("at the log's end: %+v", b)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
	for err := error(nil); !errors.Is(err, enough); {
		if err = changes.Next(ctx, &b); err != nil && !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	exec(t, c, "INSERT INTO a VALUES (1, 1, 'x')")
	end := now(t, d, false)
	if got := until(t, changes, end); len(got) != 1 {
		t.Errorf("after a context ended: %v", texts(got))
	}
	if n, err := d.LogBytes(t.Context(), from, end); err != nil || n != int64(end.Offset-from.Offset) {
		t.Errorf("%d bytes from %v to %v, %v", n, from, end, err)
	}
	exec(t, c, "FLUSH BINARY LOGS", "INSERT INTO a VALUES (2, 1, 'x')")
	later := now(t, d, false)
	if n, err := d.LogBytes(t.Context(), from, later); err != nil || n <= int64(end.Offset-from.Offset)+int64(later.Offset) {
		t.Errorf("%d bytes from %v to %v, %v", n, from, later, err)
	}
	if _, err := d.LogBytes(t.Context(), later, from); err == nil {
		t.Error("bytes from later to before")
	}

	if got := until(t, changes, later); len(got) != 1 {
		t.Errorf("in the next file: %v", texts(got))
	}
	// A server keeps the files that a reader of the log is connected for, also one that is gone,
	// so that the purged ones are of before the first.
	var gone *StopError
	for _, from := range []Position{{File: "binlog.000000", Offset: 4}, {File: later.File, Offset: 1 << 20}} {
		if err := d.CheckFollow(t.Context(), tables, from); !errors.As(err, &gone) || gone.Reason != StopLogGone {
			t.Errorf("from %v: %v", from, err)
		}
		purged, err := d.Follow(t.Context(), FollowOptions{From: from, Tables: tables})
		if err != nil {
			t.Fatal(err)
		}
		if err := purged.Next(t.Context(), &b); !errors.As(err, &gone) || gone.Reason != StopLogGone {
			t.Errorf("from %v: %v", from, err)
		}
		if err := purged.Close(); err != nil {
			t.Error(err)
		}
	}

	done := make(chan error)
	go func() {
		for {
			if err := changes.Next(t.Context(), &b); err != nil {
				done <- err
				return
			}
		}
	}()
	if err := changes.Close(); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, "Next to return", done); !errors.Is(err, errClosed) {
		t.Errorf("closed meanwhile: %v", err)
	}

	impatient := follow(t, d, FollowOptions{From: later, Tables: tables, Patience: 10 * time.Millisecond})
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		err = impatient.Next(t.Context(), &b)
	}
	if !strings.Contains(err.Error(), "tried for 10ms") {
		t.Errorf("a server that is gone: %v", err)
	}
}

func TestCheckFollow(t *testing.T) {
	server, d, c, tables := followServer(t)
	from := now(t, d, false)
	exec(t, c, "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES c (id) ON DELETE CASCADE)", "CREATE TABLE packed (id INT PRIMARY KEY, s TEXT COMPRESSED)")
	check := func(name, want string, d *LogServer, tables []*Table) {
		t.Helper()
		if err := d.CheckFollow(t.Context(), tables, from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	for name, want := range map[string]string{"child": "ON DELETE CASCADE", "packed": "COMPRESSED"} {
		table, err := d.Describe(t.Context(), "f", name)
		if err != nil {
			t.Fatal(err)
		}
		check(name, want, d, []*Table{table})
	}
	old := *tables[0]
	old.Columns = old.Columns[:2]
	check("altered since", "not as it was described", d, []*Table{&old})
	check("no grant", "GRANT REPLICATION SLAVE", direct(t, app(server)), tables)
	for set, want := range map[string]string{"binlog_format = MIXED": "binlog_format", "binlog_row_image = MINIMAL": "binlog_row_image"} {
		exec(t, c, "SET GLOBAL "+set)
		check(set, want, d, tables)
		exec(t, c, "SET GLOBAL binlog_format = ROW, GLOBAL binlog_row_image = FULL")
	}
	check("no log", "log_bin", direct(t, root(testmysql.Start(t))), tables)
}
