package binlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestFollowBefore reads changes with before images of only the key, without a plan and with one that reads
// another column.
func TestFollowBefore(t *testing.T) {
	_, d, c, tables := testrows.FollowServer(t)
	from := testrows.Now(t, d, false)
	testrows.Exec(t, c, "INSERT INTO a VALUES (1, 10, 'one'), (2, NULL, 'two')", "UPDATE a SET s = 'changed' WHERE id = 1", "UPDATE a SET id = 3, n = 5 WHERE id = 1", "DELETE FROM a WHERE id = 3")
	to := testrows.Now(t, d, false)
	nulls := func(row mysqlwire.TextRow, but int) {
		for i := range row {
			if i != but {
				row[i] = nil
			}
		}
	}
	for name, tt := range map[string]struct {
		plan *rowstream.Plan
		key  int
	}{
		"as they are": {key: 0},
		"by a plan": {key: 1, plan: &rowstream.Plan{
			Match:  &rowstream.Predicate{Op: rowstream.GreaterOrEqual, Column: 1, Compare: rowstream.Number, Values: testrows.Values("10")},
			Output: []rowstream.Output{{Column: 2}, {Column: 0}},
		}},
	} {
		o := binlog.FollowOptions{From: from, Tables: tables, Plans: []*rowstream.Plan{tt.plan}}
		want := testrows.Until(t, testrows.Follow(t, d, o), to)
		for i := range want {
			nulls(want[i].Before, tt.key)
		}
		o.Before = [][]int{{tt.key}}
		if diff := cmp.Diff(testrows.Texts(want), testrows.Texts(testrows.Until(t, testrows.Follow(t, d, o), to))); diff != "" || len(want) < 2 {
			t.Errorf("%s: %d changes: %s", name, len(want), diff)
		}
	}
}

// TestFollowLost repeatedly kills the reader's connection, and the server, while large and small transactions
// are written: each change is returned once and in order.
func TestFollowLost(t *testing.T) {
	for _, gtid := range []bool{false, true} {
		t.Run(fmt.Sprintf("gtid %v", gtid), func(t *testing.T) {
			t.Parallel()
			server, d, c, tables := testrows.FollowServer(t)
			from := testrows.Now(t, d, gtid)
			changes := testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables, BatchBytes: 20_000, ServerID: 77})
			r := testseed.Rand(t)
			id := 0
			write := func() {
				testrows.Exec(t, c, "BEGIN")
				for range 1 + r.IntN(8) {
					var rows []string
					for range 1 + r.IntN(400) {
						id++
						rows = append(rows, fmt.Sprintf("(%d, %d, REPEAT('x', %d))", id, id, r.IntN(100)))
					}
					testrows.Exec(t, c, "INSERT INTO a VALUES "+strings.Join(rows, ", "))
				}
				testrows.Exec(t, c, "COMMIT")
			}
			var b binlog.ChangeBatch
			next, split, resumed := 0, 0, from
			read := func() {
				ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
				defer cancel()
				if err := changes.Next(ctx, &b); err != nil {
					t.Fatal(err)
				}
				for _, s := range testrows.ChangesOf(t, &b) {
					if next++; s.Kind != binlog.Insert || string(s.After[0]) != fmt.Sprint(next) {
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
					c = testrows.Connect(t, testrows.Root(server))
					testrows.Exec(t, c, "USE f")
					continue
				}
				for _, thread := range testrows.Column(t, c, "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'") {
					testrows.Exec(t, c, "KILL "+thread)
				}
			}
			to := testrows.Now(t, d, false)
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
				want := testrows.Column(t, c, "SELECT @@gtid_binlog_pos")
				if b.Upto.GTID != want[0] {
					t.Errorf("the end is %v, the server's GTID %v", b.Upto, want)
				}
			}
		})
	}
}

func TestFollowEnds(t *testing.T) {
	server, d, c, tables := testrows.FollowServer(t)
	from := testrows.Now(t, d, false)
	changes := testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: tables, Heartbeat: 100 * time.Millisecond})
	var b binlog.ChangeBatch
	for !b.Idle {
		if err := changes.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	if !b.Boundary || len(b.Changes) != 0 || b.Upto.Compare(testrows.Now(t, d, false)) != 0 {
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
	testrows.Exec(t, c, "INSERT INTO a VALUES (1, 1, 'x')")
	end := testrows.Now(t, d, false)
	if got := testrows.Until(t, changes, end); len(got) != 1 {
		t.Errorf("after a context ended: %v", testrows.Texts(got))
	}
	if n, err := d.LogBytes(t.Context(), from, end); err != nil || n != int64(end.Offset-from.Offset) {
		t.Errorf("%d bytes from %v to %v, %v", n, from, end, err)
	}
	testrows.Exec(t, c, "FLUSH BINARY LOGS", "INSERT INTO a VALUES (2, 1, 'x')")
	later := testrows.Now(t, d, false)
	if n, err := d.LogBytes(t.Context(), from, later); err != nil || n <= int64(end.Offset-from.Offset)+int64(later.Offset) {
		t.Errorf("%d bytes from %v to %v, %v", n, from, later, err)
	}
	if _, err := d.LogBytes(t.Context(), later, from); err == nil {
		t.Error("bytes from later to before")
	}

	if got := testrows.Until(t, changes, later); len(got) != 1 {
		t.Errorf("in the next file: %v", testrows.Texts(got))
	}
	// A server keeps the files of a connected reader of the log, even a disconnected one, so the purged ones
	// are older.
	var gone *binlog.StopError
	for _, from := range []binlog.Position{{File: "binlog.000000", Offset: 4}, {File: later.File, Offset: 1 << 20}} {
		if err := d.CheckFollow(t.Context(), tables, from); !errors.As(err, &gone) || gone.Reason != binlog.StopLogGone {
			t.Errorf("from %v: %v", from, err)
		}
		purged, err := d.Follow(t.Context(), binlog.FollowOptions{From: from, Tables: tables})
		if err != nil {
			t.Fatal(err)
		}
		if err := purged.Next(t.Context(), &b); !errors.As(err, &gone) || gone.Reason != binlog.StopLogGone {
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
	if err := testwait.Receive(t, "Next to return", done); !errors.Is(err, binlog.ErrClosed) {
		t.Errorf("closed meanwhile: %v", err)
	}

	impatient := testrows.Follow(t, d, binlog.FollowOptions{From: later, Tables: tables, Patience: 10 * time.Millisecond})
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
	server, d, c, tables := testrows.FollowServer(t)
	from := testrows.Now(t, d, false)
	testrows.Exec(t, c, "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES c (id) ON DELETE CASCADE)", "CREATE TABLE packed (id INT PRIMARY KEY, s TEXT COMPRESSED)")
	check := func(name, want string, d *binlog.Direct, tables []*rowstream.Table) {
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
		check(name, want, d, []*rowstream.Table{table})
	}
	old := *tables[0]
	old.Columns = old.Columns[:2]
	check("altered since", "not as it was described", d, []*rowstream.Table{&old})
	check("no grant", "GRANT REPLICATION SLAVE", testrows.Direct(t, testrows.App(server)), tables)
	for set, want := range map[string]string{"binlog_format = MIXED": "binlog_format", "binlog_row_image = MINIMAL": "binlog_row_image"} {
		testrows.Exec(t, c, "SET GLOBAL "+set)
		check(set, want, d, tables)
		testrows.Exec(t, c, "SET GLOBAL binlog_format = ROW, GLOBAL binlog_row_image = FULL")
	}
	check("no log", "log_bin", testrows.Direct(t, testrows.Root(testmysql.Start(t))), tables)
}
