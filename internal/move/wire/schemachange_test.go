package wire_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestSchemaChanges finds changes of definitions in the log, with their effect on rows and whether there are
// rows before them, and follows past those that are included in the description.
func TestSchemaChanges(t *testing.T) {
	_, d, c, tables := testrows.FollowServer(t)
	from := testrows.Now(t, d, false)
	first := []string{"INSERT INTO a VALUES (1, 1, 'before')", "ALTER TABLE a ADD COLUMN x INT DEFAULT 7", "INSERT INTO a VALUES (2, 2, 'after', 8)", "CREATE INDEX i ON a (n)"}
	testrows.Exec(t, c, first...)
	to := testrows.Now(t, d, false)
	testrows.Exec(t, c, "ALTER TABLE a DROP COLUMN x", "TRUNCATE TABLE a")
	reported := func(all []binlog.SchemaChange) (got []string) {
		for _, s := range all {
			got = append(got, fmt.Sprintf("%d: kind %d, rows %v: %s", s.Table, s.Kind, s.Rows, s.SQL))
		}
		return got
	}
	remote := followers(t, d)["remote"]
	named, err := d.GTIDPosition(t.Context())
	if p := testrows.Now(t, d, session.IsMariaDB(c.ServerVersion)); err != nil || named != p {
		t.Errorf("the end with its GTID is %s (%v), want %s", named, err, p)
	}
	if p, err := remote.GTIDPosition(t.Context()); err != nil || p != named {
		t.Errorf("over the wire it is %s, %v, want %s", p, err, named)
	}
	changes, err := d.SchemaChanges(t.Context(), tables, from, to)
	across, remoteErr := remote.SchemaChanges(t.Context(), tables, from, to)
	if diff := cmp.Diff(changes, across); diff != "" || remoteErr != nil {
		t.Errorf("%v\n%s", remoteErr, diff)
	}
	want := []string{"0: kind 1, rows true: ALTER TABLE a ADD COLUMN x INT DEFAULT ?", "0: kind 0, rows true: " + first[3]}
	if diff := cmp.Diff(want, reported(changes)); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if none, err := d.SchemaChanges(t.Context(), tables, to, to); len(none) > 0 || err != nil {
		t.Errorf("between a place and itself: %v, %v", reported(none), err)
	}

	// From after the first rows, with the description of the later ones.
	testrows.Exec(t, c, "CREATE OR REPLACE TABLE a (id INT PRIMARY KEY, n INT, s VARCHAR(100), x INT)")
	table, err := d.Describe(t.Context(), "f", "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []binlog.Follower{d, remote} {
		got, stop := testrows.UntilStop(t, f, binlog.FollowOptions{From: changes[0].At, Tables: []*rowstream.Table{table}, Defined: []binlog.Position{to}})
		if stop.Reason != binlog.StopSchema || stop.SQL != "ALTER TABLE a DROP COLUMN x" || stop.Change != binlog.ChangeColumns {
			t.Errorf("it ended with %v", stop)
		}
		if diff := cmp.Diff([]string{`0 insert -> ["2" "2" "after" "8"].`}, got); diff != "" {
			t.Error(diff)
		}
	}
	layout, err := remote.Layout(t.Context(), table)
	if diff := cmp.Diff([]int{0, 1, 2, 3}, layout); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}

	// As of an earlier position, with a generated column that was dropped since.
	old, err := d.Describe(t.Context(), "f", "a")
	if err != nil {
		t.Fatal(err)
	}
	testrows.Exec(t, c, "ALTER TABLE a ADD COLUMN g INT AS (n + 1) STORED AFTER id")
	if layout, err = d.Layout(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	from = testrows.Now(t, d, false)
	testrows.Exec(t, c, "INSERT INTO a (id, n, s, x) VALUES (1, 2, 'c', 4)", "ALTER TABLE a DROP COLUMN g, DROP COLUMN x")
	for _, f := range []binlog.Follower{d, remote} {
		past, _ := testrows.UntilStop(t, f, binlog.FollowOptions{From: from, Tables: []*rowstream.Table{old}, Layouts: [][]int{layout}})
		if diff := cmp.Diff([]string{`0 insert -> ["1" "2" "c" "4"].`}, past); diff != "" {
			t.Error(diff)
		}
	}
}

// TestFollowNames follows a table that is requested under another case of its name than in the log, also one
// with a given layout.
func TestFollowNames(t *testing.T) {
	_, d, c, _ := testrows.FollowServer(t, "--lower-case-table-names=1")
	table, err := d.Describe(t.Context(), "F", "A")
	if err != nil {
		t.Fatal(err)
	}
	layout, err := d.Layout(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	from := testrows.Now(t, d, false)
	testrows.Exec(t, c, "INSERT INTO a VALUES (1, 2, 'x')")
	to := testrows.Now(t, d, false)
	for name, f := range followers(t, d) {
		for _, layouts := range [][][]int{nil, {layout}} {
			if got := testrows.Until(t, testrows.Follow(t, f, binlog.FollowOptions{From: from, Tables: []*rowstream.Table{table}, Layouts: layouts}), to); len(got) != 1 {
				t.Errorf("%s, layouts %v: %v", name, layouts, testrows.Texts(got))
			}
		}
	}
}
