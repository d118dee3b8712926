package binlog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
)

// TestFollowTwoPhases follows a server that logs ALTER TABLE in two phases.
func TestFollowTwoPhases(t *testing.T) {
	_, d, c, tables := testrows.FollowServer(t, "--binlog-alter-two-phase=ON")
	from := testrows.Now(t, d, true)
	testrows.Exec(t, c, "INSERT INTO a VALUES (1, 5, 'one'), (2, 5, 'two')")
	if _, err := c.Exec(t.Context(), "ALTER TABLE a ADD UNIQUE (n)"); err == nil {
		t.Fatal("the ALTER was not rolled back")
	}
	testrows.Exec(t, c, "INSERT INTO a VALUES (3, 5, 'three')", "SET STATEMENT lock_wait_timeout = 9 FOR ALTER TABLE a ADD x INT, ALGORITHM=COPY", "INSERT INTO a VALUES (4, 5, 'four', 1)")
	got, stop := testrows.UntilStop(t, d, binlog.FollowOptions{From: from, Tables: tables, Layouts: [][]int{{0, 1, 2}}})
	want := []string{`0 insert -> ["1" "5" "one"]`, `0 insert -> ["2" "5" "two"].`, `0 insert -> ["3" "5" "three"].`}
	if diff := cmp.Diff(want, got); diff != "" || stop.Reason != binlog.StopSchema {
		t.Errorf("%v\n%s", stop, diff)
	}
	changes, err := d.SchemaChanges(t.Context(), tables, from, testrows.Now(t, d, true))
	if err != nil || len(changes) != 1 || !changes[0].Rows || changes[0].At != stop.At {
		t.Errorf("%+v, %v; want one change at %s", changes, err, stop.At)
	}
}
