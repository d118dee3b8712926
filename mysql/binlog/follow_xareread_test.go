package binlog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// xaMany returns the statements of an XA transaction up to its end: inserts of rows of about 130 bytes, ten
// per statement, and additional ones.
func xaMany(id string, first, n int, more ...string) []string {
	all := []string{"XA START " + id}
	for i := first; i < first+n; i += 10 {
		var rows []string
		for id := i; id < i+10; id++ {
			rows = append(rows, fmt.Sprintf("(%d, %d, '%s')", id, id, strings.Repeat("r", 100)))
		}
		all = append(all, "INSERT INTO a VALUES "+strings.Join(rows, ", "))
	}
	return append(append(all, more...), "XA END "+id)
}

// smallXA keeps rows of XA transactions of up to ten rows, and returns as many in a batch.
func smallXA(from binlog.Position, tables []*rowstream.Table) binlog.FollowOptions {
	return binlog.FollowOptions{From: from, Tables: tables, PreparedBytes: 2000, BatchBytes: 1200}
}

// unmarked returns changes without the mark of a transaction's last one, which depends on the size of
// batches.
func unmarked(all []testrows.Seen) (lines []string) {
	for _, s := range all {
		s.Last = false
		lines = append(lines, s.String())
	}
	return lines
}

// TestFollowXALarge reads XA transactions with more rows than are kept: the changes are those of a reader
// that keeps all, and positions to resume from are before the transactions that are prepared or read again.
func TestFollowXALarge(t *testing.T) {
	testrows.XAServers(t, func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table) {
		for _, gtid := range []bool{false, true} {
			one("TRUNCATE TABLE a")
			from := testrows.Now(t, d, gtid)
			one(xaMany("'big'", 1, 60, "SAVEPOINT s", "UPDATE a SET n = n + 1 WHERE id <= 3", "ROLLBACK TO s", "UPDATE a SET n = n + 2 WHERE id <= 2",
				"DELETE FROM a WHERE id = 30")...)
			one("XA PREPARE 'big'")
			prepared := testrows.Now(t, d, false)
			two("INSERT INTO a VALUES (500, 5, 'meanwhile')")
			two(append(xaMany("'gone', 'b', 7", 100, 60), "XA PREPARE 'gone', 'b', 7", "XA ROLLBACK 'gone', 'b', 7")...)
			one("XA COMMIT 'big'")
			one(append(xaMany("'phase'", 200, 60), "XA COMMIT 'phase' ONE PHASE")...)
			one(append(xaMany("'small'", 300, 10), "XA PREPARE 'small'", "XA COMMIT 'small'", "INSERT INTO a VALUES (1000, 1, 'last')")...)
			to := testrows.Now(t, d, false)
			want := unmarked(testrows.Until(t, testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables}), to))
			if len(want) < 1+60+3+60+10+1 {
				t.Fatalf("%d changes", len(want))
			}

			changes := testrows.Follow(t, d, smallXA(from, tables))
			var b binlog.ChangeBatch
			var got []string
			var resume []binlog.Position // within the rows that are read again
			for !b.Boundary || b.Upto.Compare(to) < 0 {
				if err := changes.Next(t.Context(), &b); err != nil {
					t.Fatalf("after %d changes: %v", len(got), err)
				}
				got = append(got, unmarked(testrows.ChangesOf(t, &b))...)
				if !b.Boundary && len(got) > 5 {
					resume = append(resume, b.Upto)
				}
				if len(got) < 60 && b.Upto.Compare(prepared) >= 0 {
					t.Errorf("%s is behind a transaction that is not handed out", b.Upto)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("GTIDs %v: %s", gtid, diff)
			}
			if len(resume) < 4 {
				t.Fatalf("GTIDs %v: nothing was read again: %d batches end within a transaction", gtid, len(resume))
			}
			for _, p := range []binlog.Position{resume[0], resume[len(resume)-1]} {
				again := unmarked(testrows.Until(t, testrows.Follow(t, d, smallXA(p, tables)), to))
				if len(again) > len(want) || len(again) < 60 || cmp.Diff(want[len(want)-len(again):], again) != "" {
					t.Errorf("GTIDs %v: from %s: %d changes, which are not the last of those before", gtid, p, len(again))
				}
			}
		}
	})
}

// TestFollowXALargeLost loses connections while rows are read again, and then purges their log.
func TestFollowXALargeLost(t *testing.T) {
	testrows.XAServers(t, func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table) {
		from := testrows.Now(t, d, true)
		one(append(xaMany("'big'", 1, 60), "XA PREPARE 'big'")...)
		two("INSERT INTO a VALUES (100, 5, 'meanwhile')")
		one("XA COMMIT 'big'")
		to := testrows.Now(t, d, false)
		want := unmarked(testrows.Until(t, testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables}), to))
		c := testrows.Follow(t, d, smallXA(from, tables))
		var b binlog.ChangeBatch
		var got []string
		lost := 0
		for !b.Boundary || b.Upto.Compare(to) < 0 {
			if err := c.Next(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			got = append(got, unmarked(testrows.ChangesOf(t, &b))...)
			if len(b.Changes) == 0 {
				continue
			}
			was, err := binlog.LoseReread(t.Context(), c)
			if err != nil {
				t.Error(err)
			}
			if was {
				lost++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || lost < 3 {
			t.Errorf("%d connections were lost: %s", lost, diff)
		}

		one(append(xaMany("'purged'", 200, 60), "XA PREPARE 'purged'")...)
		two("FLUSH BINARY LOGS")
		o := smallXA(to, tables)
		c = testrows.Follow(t, d, o)
		last := testrows.Now(t, d, false)
		for b = (binlog.ChangeBatch{}); !b.Boundary || binlog.ReadPosition(c).Compare(last) < 0; {
			if err := c.Next(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
		logs := func() (files []string) {
			if err := d.Query(t.Context(), "SHOW BINARY LOGS", func(row mysqlwire.TextRow) error {
				files = append(files, string(row[0]))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return files
		}
		files := logs()
		one("XA COMMIT 'purged'")
		testwait.UntilState(t, "the log of the PREPARE to be purged", func() (string, bool) { // servers keep files in use
			two("FLUSH BINARY LOGS", "PURGE BINARY LOGS TO '"+files[len(files)-1]+"'")
			rest := logs()
			return strings.Join(rest, " "), rest[0] == files[len(files)-1]
		})
		var stop *binlog.StopError
		for err := error(nil); stop == nil; err = c.Next(t.Context(), &b) {
			if err != nil && !errors.As(err, &stop) {
				t.Fatal(err)
			}
		}
		if stop.Reason != binlog.StopLogGone || !strings.Contains(stop.What, "cannot be read again") || stop.Try == "" {
			t.Errorf("without the log of the PREPARE: %v", stop)
		}
	})
}
