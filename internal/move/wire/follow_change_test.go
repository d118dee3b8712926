package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

func TestFollowTransactions(t *testing.T) {
	_, d, c, tables := testrows.FollowServer(t)
	for _, gtid := range []bool{false, true} {
		t.Run(fmt.Sprintf("gtid %v", gtid), func(t *testing.T) {
			testrows.Exec(t, c, "DELETE FROM a", "DELETE FROM b")
			from := testrows.Now(t, d, gtid)
			testrows.Exec(t, c, "DROP TABLE IF EXISTS other.b", "ALTER TABLE c DROP COLUMN IF EXISTS a")
			testrows.Exec(t, c, "INSERT INTO a VALUES (1, 10, 'x'), (2, 20, NULL)",
				"BEGIN", "UPDATE a SET n = 11 WHERE id = 1", "INSERT INTO b VALUES (1, 'é')", "INSERT INTO c (id) VALUES (1) ON DUPLICATE KEY UPDATE id = id", "DELETE FROM a WHERE id = 2", "COMMIT",
				"INSERT INTO other.a VALUES (1) ON DUPLICATE KEY UPDATE id = id",
				"BEGIN", "INSERT INTO b VALUES (2, 'kept')", "SAVEPOINT s", "INSERT INTO b VALUES (3, 'gone')", "INSERT INTO mine VALUES (1)", "ROLLBACK TO s", "INSERT INTO b VALUES (4, 'kept')", "COMMIT",
				"BEGIN", "INSERT INTO a VALUES (9, 9, 'gone')", "ROLLBACK",
				"FLUSH BINARY LOGS",
				"ALTER TABLE c ADD COLUMN IF NOT EXISTS a INT", "CREATE OR REPLACE TABLE other.b (a INT)", "CREATE TEMPORARY TABLE b (id INT)", "INSERT INTO b VALUES (7)", "DROP TEMPORARY TABLE b",
				"CREATE TABLE IF NOT EXISTS a (x INT)", "ANALYZE TABLE a", "CREATE OR REPLACE VIEW w AS SELECT * FROM a",
				"REPLACE INTO a VALUES (1, 12, 'z')")
			to := testrows.Now(t, d, gtid)
			want := []string{
				`0 insert -> ["1" "10" "x"]`, `0 insert -> ["2" "20" ""].`,
				`0 update ["1" "10" "x"] -> ["1" "11" "x"]`, `1 insert -> ["1" "é"]`, `0 delete ["2" "20" ""].`,
				`1 insert -> ["2" "kept"]`, `1 insert -> ["4" "kept"].`,
				`0 update ["1" "11" "x"] -> ["1" "12" "z"].`,
			}
			for name, f := range followers(t, d) {
				got := testrows.Until(t, testrows.Follow(t, f, binlog.FollowOptions{From: from, Tables: tables}), to)
				if diff := cmp.Diff(want, testrows.Texts(got)); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			// One row per batch: a batch that was returned cannot be undone.
			changes := testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables, BatchBytes: 1})
			var b binlog.ChangeBatch
			var got []testrows.Seen
			var err error
			for err == nil {
				if err = changes.Next(t.Context(), &b); err == nil {
					got = append(got, testrows.ChangesOf(t, &b)...)
				}
			}
			var stop *binlog.StopError
			if !errors.As(err, &stop) || stop.Reason != binlog.StopRolledBack || len(got) != 7 {
				t.Errorf("%v, %v", testrows.Texts(got), err)
			}
		})
	}
}

// TestFollowPlan filters and projects both images of each change.
func TestFollowPlan(t *testing.T) {
	_, d, c, tables := testrows.FollowServer(t)
	from := testrows.Now(t, d, false)
	plan := &rowstream.Plan{
		Match:  &rowstream.Predicate{Op: rowstream.GreaterOrEqual, Column: 1, Compare: rowstream.Number, Values: testrows.Values("10")},
		Output: []rowstream.Output{{Column: 2}, {From: rowstream.FixedValue, Value: []byte("f")}, {Column: 0}},
	}
	testrows.Exec(t, c, "INSERT INTO a VALUES (1, 10, 'in'), (2, 9, 'out'), (3, NULL, 'unknown')",
		"UPDATE a SET n = 9 WHERE id = 1", "UPDATE a SET n = 10 WHERE id = 2", "UPDATE a SET s = 'still in' WHERE id = 2", "UPDATE a SET s = 'still out' WHERE id = 1",
		"DELETE FROM a WHERE id <> 2", "DELETE FROM a")
	want := []string{
		`0 insert -> ["in" "f" "1"].`, `0 delete ["in" "f" "1"].`, `0 insert -> ["out" "f" "2"].`,
		`0 update ["out" "f" "2"] -> ["still in" "f" "2"].`, `0 delete ["still in" "f" "2"].`,
	}
	for name, f := range followers(t, d) {
		got := testrows.Texts(testrows.Until(t, testrows.Follow(t, f, binlog.FollowOptions{From: from, Tables: tables, Plans: []*rowstream.Plan{plan}}), testrows.Now(t, d, false)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestFollowStops executes statements that cannot be followed: the reader returns the changes before each,
// stops there, and stops again when it is started from there.
func TestFollowStops(t *testing.T) {
	_, d, c, tables := testrows.FollowServer(t)
	both := followers(t, d)
	again := []string{"SET SESSION binlog_format = ROW, binlog_row_image = FULL", "CREATE OR REPLACE TABLE a (id INT PRIMARY KEY, n INT, s VARCHAR(100))"}
	for _, tt := range []struct {
		reason binlog.StopReason
		table  string
		sql    []string
		want   string
	}{
		{binlog.StopSchema, "f.a", []string{"ALTER TABLE a ADD COLUMN x INT"}, "ALTER TABLE a ADD COLUMN x INT"},
		{binlog.StopSchema, "f.a", []string{"USE other", "ALTER TABLE f.a COMMENT 'x'", "USE f"}, "ALTER TABLE f.a"},
		{binlog.StopSchema, "f.a", []string{"TRUNCATE a"}, "TRUNCATE"},
		{binlog.StopSchema, "f.a", []string{"RENAME TABLE `f`.`a` TO other.z", "DROP TABLE other.z"}, "RENAME TABLE"},
		{binlog.StopSchema, "f.a", []string{"DROP TABLE a"}, "DROP TABLE"},
		{binlog.StopSchema, "f.a", []string{"CREATE INDEX i ON a (n)"}, "CREATE INDEX"},
		{binlog.StopSchema, "f.a", []string{"CREATE OR REPLACE TABLE a (id INT)"}, "CREATE OR REPLACE"},
		{binlog.StopStatement, "", []string{"SET SESSION binlog_format = STATEMENT", "UPDATE a SET n = n + 1"}, "binlog_format = ROW"},
		{binlog.StopStatement, "", []string{"SET SESSION binlog_format = STATEMENT", "BEGIN", "INSERT INTO a VALUES (8, 8, 'secret')", "COMMIT"}, "copy the table again with option restart"},
		{binlog.StopStatement, "", []string{"SET SESSION binlog_format = STATEMENT", "INSERT INTO other.a SELECT id + 7 FROM a"}, "option ignore-statement"},
		{binlog.StopSchema, "f.a", []string{"SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE TABLE f.a"}, "TRUNCATE"},
		{binlog.StopImage, "f.a", []string{"SET SESSION binlog_row_image = MINIMAL", "UPDATE a SET n = 77"}, "binlog_row_image = FULL"},
	} {
		testrows.Exec(t, c, again...)
		from := testrows.Now(t, d, false)
		testrows.Exec(t, c, "INSERT INTO a VALUES (1, 1, 'before')")
		at := testrows.Now(t, d, false)
		testrows.Exec(t, c, tt.sql...)
		testrows.Exec(t, c, again...)
		testrows.Exec(t, c, "INSERT INTO a VALUES (1, 1, 'after')")
		for i, from := range []binlog.Position{from, at, from} {
			changes := testrows.Follow(t, both[[]string{"direct", "direct", "remote"}[i]], binlog.FollowOptions{From: from, Tables: tables})
			var b binlog.ChangeBatch
			var err error
			n := 0
			for err == nil {
				if err = changes.Next(t.Context(), &b); err == nil {
					n += len(b.Changes)
				}
			}
			var stop *binlog.StopError
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
	testrows.Exec(t, c, again...)
	from := testrows.Now(t, d, false)
	testrows.Exec(t, c, "BEGIN", "INSERT INTO a VALUES (1, 1, 'one phase')", "COMMIT", "XA START 'y'", "INSERT INTO a VALUES (2, 2, '')", "XA END 'y'", "XA COMMIT 'y' ONE PHASE",
		"SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE TABLE other.a")
	if got := testrows.Until(t, testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables}), testrows.Now(t, d, false)); len(got) != 2 {
		t.Errorf("%v", testrows.Texts(got))
	}
}
