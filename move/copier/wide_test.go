package copier_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestWideRows writes rows of 1 MiB and then many of 100 bytes over one connection, as files and as
// statements: afterwards the writer keeps no more memory than for four batches.
func TestWideRows(t *testing.T) {
	p := newPair(t, "wide")
	sqlExec(t, p.source, "CREATE TABLE t (id INT PRIMARY KEY, c LONGTEXT NOT NULL)",
		fmt.Sprintf("INSERT INTO t SELECT seq, REPEAT('w\\n', %d) FROM seq_1_to_%d", 1<<19, wideRows),
		fmt.Sprintf("INSERT INTO t SELECT seq + %d, REPEAT('n', 100) FROM seq_1_to_%d", wideRows, thinRows))
	from, err := binlog.OpenDirect(t.Context(), root(p.from))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	table, err := from.Describe(t.Context(), "wide", "t")
	if err != nil {
		t.Fatal(err)
	}
	view, err := from.Snapshot(t.Context(), 1, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = view.Close() }()
	s := state.State{Schema: state.DefaultStateSchema}
	if err := s.Create(t.Context(), p.target); err != nil {
		t.Fatal(err)
	}
	spec := &tabledef.Spec{Schema: "wide", Name: "t"}
	spec.Defaults()
	if s.Lease, err = state.AcquireLease(t.Context(), connect(t, root(p.to)), s, []*tabledef.Spec{spec}, time.Second); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"load", "insert"} {
		t.Run(how, func(t *testing.T) {
			sqlExec(t, p.target, "CREATE OR REPLACE DATABASE wide", "CREATE TABLE wide.t (id INT PRIMARY KEY, c LONGTEXT NOT NULL)",
				"SET GLOBAL local_infile = "+map[string]string{"load": "1", "insert": "0"}[how])
			w := &state.Writer{Cfg: root(p.to), State: s, Observe: func(e telemetry.Event) { t.Error(e.Text) }}
			defer w.Close()
			if err := w.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			chunk := rowstream.Chunk{}
			if err := s.Cut(t.Context(), p.target, spec, chunk); err != nil {
				t.Fatal(err)
			}
			defer sqlExec(t, p.target, "DELETE FROM _tare.copy_chunk")
			most := 0
			c, err := w.Begin(t.Context(), &tabledef.Target{Spec: spec, Columns: table.Columns})
			if err != nil {
				t.Fatal(err)
			}
			for b, err := range view.Reader(0).Read(t.Context(), table, chunk, rowstream.ReadOptions{}) {
				if err == nil {
					most = max(most, len(b.Bytes))
					err = c.Write(t.Context(), b)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(c.Settle(t.Context()), c.Commit(t.Context(), chunk)); err != nil || c.Rows != wideRows+thinRows {
				t.Fatalf("%d rows, %v", c.Rows, err)
			}
			if most <= state.TextKeep {
				t.Errorf("no batch had more than %d bytes: nothing is shown", most)
			}
			if cap(w.Text) > state.TextKeep {
				t.Errorf("room for %d bytes of text is kept, want at most %d", cap(w.Text), state.TextKeep)
			}
			if size := w.Conn.Size(); size > 64<<10 {
				t.Errorf("the connection to the target reads into %d bytes", size)
			}
			const sums = "SELECT COUNT(*), SUM(LENGTH(c)), SUM(CRC32(CONCAT(id, c))) FROM wide.t"
			if diff := cmp.Diff(read(t, p.source, sums), read(t, p.target, sums)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
