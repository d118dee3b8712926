package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestFollowXA reads XA transactions: rows are returned when they are committed, in the order of the commits,
// and a position to resume from is before the prepared ones.
func TestFollowXA(t *testing.T) {
	testrows.XAServers(t, func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table) {
		from := testrows.Now(t, d, false)
		one("XA START 'x'", "INSERT INTO a VALUES (1, 1, 'prepared')", "SAVEPOINT s", "INSERT INTO a VALUES (-2, 2, 'undone')", "ROLLBACK TO s",
			"UPDATE a SET n = 3 WHERE id = 1", "XA END 'x'", "XA PREPARE 'x'")
		prepared := testrows.Now(t, d, false)
		two("INSERT INTO a VALUES (5, 5, 'meanwhile')")
		two("XA START 'gone', 'b', 7", "INSERT INTO a VALUES (6, 6, 'rolled back')", "XA END 'gone', 'b', 7", "XA PREPARE 'gone', 'b', 7", "XA ROLLBACK 'gone', 'b', 7",
			"XA START 'y'", "INSERT INTO a VALUES (7, 7, 'one phase')", "XA END 'y'", "XA COMMIT 'y' ONE PHASE",
			"XA START 'other'", "INSERT INTO c VALUES (1)", "XA END 'other'", "XA PREPARE 'other'", "XA COMMIT 'other'")

		changes := testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables})
		var b binlog.ChangeBatch
		var got []testrows.Seen
		for len(got) < 2 {
			if err := changes.Next(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			got = append(got, testrows.ChangesOf(t, &b)...)
			if b.Upto.Compare(prepared) >= 0 {
				t.Errorf("%s is behind a transaction that is prepared", b.Upto)
			}
		}
		resume := b.Upto
		one("XA COMMIT 'x'")
		to := testrows.Now(t, d, false)
		got = append(got, testrows.Until(t, changes, to)...)
		want := []string{
			`0 insert -> ["5" "5" "meanwhile"].`, `0 insert -> ["7" "7" "one phase"].`,
			`0 insert -> ["1" "1" "prepared"]`, `0 update ["1" "1" "prepared"] -> ["1" "3" "prepared"].`,
		}
		if diff := cmp.Diff(want, testrows.Texts(got)); diff != "" {
			t.Error(diff)
		}
		for name, f := range followers(t, d) { // everything after it is returned again
			if diff := cmp.Diff(want, testrows.Texts(testrows.Until(t, testrows.Follow(t, f, binlog.FollowOptions{From: resume, Tables: tables}), to))); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}

		// From after the PREPARE.
		_, stop := testrows.UntilStop(t, d, binlog.FollowOptions{From: prepared, Tables: tables})
		if stop.Reason != binlog.StopRolledBack || stop.Digest == "" {
			t.Errorf("the commit of what was prepared before: %v", stop)
		}
	})
}
