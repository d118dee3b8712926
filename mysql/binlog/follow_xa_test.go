package binlog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestFollowXALost reads XA transactions over connections that are lost.
func TestFollowXALost(t *testing.T) {
	testrows.XAServers(t, func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table) {
		from := testrows.Now(t, d, false)
		changes := testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables, ServerID: 78})
		one("XA START 'x'", "INSERT INTO a VALUES (1, 1, 'prepared')", "XA END 'x'", "XA PREPARE 'x'")
		two("INSERT INTO a VALUES (2, 2, 'between')")
		var b binlog.ChangeBatch
		if err := changes.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		got := testrows.Texts(testrows.ChangesOf(t, &b))
		if err := binlog.Lose(t.Context(), changes); err != nil {
			t.Error(err)
		}
		one("XA COMMIT 'x'")
		got = append(got, testrows.Texts(testrows.Until(t, changes, testrows.Now(t, d, false)))...)
		if diff := cmp.Diff([]string{`0 insert -> ["2" "2" "between"].`, `0 insert -> ["1" "1" "prepared"].`}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSnapshotWaitsForXA takes a snapshot while an XA transaction is prepared: it waits for its end, so that
// the log after it has no commit of an earlier prepared transaction.
func TestSnapshotWaitsForXA(t *testing.T) {
	testrows.XAServers(t, func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table) {
		one("XA START 'x'", "INSERT INTO a VALUES (1, 1, 'prepared')", "XA END 'x'", "XA PREPARE 'x'")
		type taken struct {
			view rowstream.View
			err  error
		}
		done := make(chan taken, 1)
		go func() {
			v, err := d.Snapshot(t.Context(), 2, tables)
			done <- taken{v, err}
		}()
		select {
		case s := <-done:
			t.Fatalf("it did not wait: %v", s.err)
		case <-time.After(200 * time.Millisecond):
		}
		one("XA COMMIT 'x'")
		s := testwait.Receive(t, "the snapshot", done)
		if s.err != nil {
			t.Fatal(s.err)
		}
		defer s.view.Close()
		if strings.Contains(s.view.How(), "XA") {
			t.Errorf("%s", s.view.How())
		}
		from, err := binlog.ParsePosition(s.view.Position())
		if err != nil {
			t.Fatal(err)
		}
		two("INSERT INTO a VALUES (2, 2, 'later')")
		if got := testrows.Texts(testrows.Until(t, testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables}), testrows.Now(t, d, false))); len(got) != 1 {
			t.Errorf("behind the snapshot: %v", got)
		}
	})
}

// TestFollowXALaterTable follows a table whose rows were copied while an XA transaction with changes of it was
// prepared, beside another one from before that: the changes of the one are unknown when it is committed.
func TestFollowXALaterTable(t *testing.T) {
	testrows.XAServers(t, func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table) {
		two("CREATE TABLE b (id INT PRIMARY KEY)")
		later, err := d.Describe(t.Context(), "f", "b")
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name, changes, end string
			before             bool // the end is before the start of b
			want               string
		}{
			{"commit", "INSERT INTO b VALUES (1)", "COMMIT", false, "was prepared before the rows of the table were copied"},
			{"both", "INSERT INTO a VALUES (1, 1, 'both'); INSERT INTO b VALUES (2)", "COMMIT", false, "was prepared before the rows of the table were copied"},
			{"rollback", "INSERT INTO b VALUES (3)", "ROLLBACK", false, ""},
			{"other table", "INSERT INTO a VALUES (2, 2, 'other')", "COMMIT", false, ""},
			{"before", "INSERT INTO a VALUES (3, 3, 'before'); INSERT INTO b VALUES (4)", "COMMIT", true, ""},
		} {
			from := testrows.Now(t, d, false)
			one("XA START 'x'")
			one(strings.Split(tt.changes, "; ")...)
			one("XA END 'x'", "XA PREPARE 'x'")
			two("INSERT INTO c SELECT COALESCE(MAX(id), 0) + 1 FROM c")
			if tt.before {
				one("XA " + tt.end + " 'x'")
			}
			start := testrows.Now(t, d, false)
			c := testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: append(tables, later), Starts: []binlog.Position{{}, start}})
			if !tt.before {
				one("XA " + tt.end + " 'x'")
			}
			two("INSERT INTO c SELECT MAX(id) + 1 FROM c")
			var stop *binlog.StopError
			end := testrows.Now(t, d, false)
			for b := (binlog.ChangeBatch{}); stop == nil && b.Upto.Compare(end) < 0; {
				if err := c.Next(t.Context(), &b); err != nil && !errors.As(err, &stop) {
					t.Fatal(err)
				}
			}
			switch {
			case stop == nil && tt.want != "":
				t.Errorf("%s: it does not stop", tt.name)
			case stop != nil && (tt.want == "" || !strings.Contains(stop.Error(), tt.want)):
				t.Errorf("%s: %v", tt.name, stop)
			}
		}
	})
}
