package copier_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestLeaseFences has a run write rows, and each table of the state, after another run took over: every write fails,
// and nothing changes. The same writes succeed while the run has its lease.
func TestLeaseFences(t *testing.T) {
	p := newPair(t, "lease")
	sqlExec(t, p.target, "CREATE DATABASE IF NOT EXISTS lease", "CREATE OR REPLACE TABLE lease.a (id INT PRIMARY KEY)")
	l, holder, err := p.acquire(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, root(p.to))
	s := state.State{Schema: state.DefaultStateSchema, Lease: l}
	following := s.Followed("server", []tabledef.Spec{*l.First})
	if err := errors.Join(s.Create(t.Context(), c), s.CreateFollow(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	columns := []rowstream.Column{{Name: "id", Type: "int", FullType: "int(11)"}}
	text := func(v string) mysqlwire.TextRow { return mysqlwire.TextRow{[]byte(v)} }
	chunk := func(number int, upto string) rowstream.Chunk {
		k := rowstream.Chunk{Number: number, Upto: text(upto)}
		if number > 0 {
			k.After = text("10")
		}
		return k
	}
	w := &state.Writer{Cfg: root(p.to), State: s}
	defer w.Close()
	rows := func(ctx context.Context, id string, k rowstream.Chunk) error {
		out, err := w.Begin(ctx, &tabledef.Target{Spec: l.First, Columns: columns})
		if err != nil {
			return err
		}
		b := rowstream.Batch{Columns: 1}
		b.AppendRow(text(id))
		if err = errors.Join(out.Write(ctx, &b), out.Settle(ctx)); err == nil {
			err = out.Commit(ctx, k)
		}
		if err != nil {
			sqlExec(t, w.Conn, "ROLLBACK")
		}
		return err
	}
	type fence struct {
		name  string
		write func(ctx context.Context) error
	}
	var fences []fence
	position := func(at uint64) binlog.Position { return binlog.Position{File: "binlog.000001", Offset: at} }
	for _, write := range []struct {
		name string
		do   func(ctx context.Context, again bool) error
	}{
		{"copy_table", func(ctx context.Context, again bool) error {
			if again {
				return s.SetPhase(ctx, c, l.First, tabledef.Indexing, 1)
			}
			return s.Begin(ctx, c, l.First, "table lease.a", "server", "", nil, nil)
		}},
		{"copy_chunk, cut", func(ctx context.Context, again bool) error {
			if again {
				return s.Cut(ctx, c, l.First, chunk(1, "20"))
			}
			return s.Cut(ctx, c, l.First, chunk(0, "10"))
		}},
		{"rows and copy_chunk, copied", func(ctx context.Context, again bool) error {
			if again {
				return rows(ctx, "2", chunk(0, "10"))
			}
			return rows(ctx, "1", chunk(0, "10"))
		}},
		{"copy_definition", func(ctx context.Context, again bool) error {
			d := tabledef.Definition{Table: &rowstream.Table{Name: "a", Columns: columns}, Upto: position(4)}
			if again {
				return s.StoppedBy(ctx, c, l.First, "ALTER TABLE a")
			}
			return s.Define(ctx, c, l.First, d)
		}},
		{"copy_follow", func(ctx context.Context, again bool) error {
			if again {
				return following.Record(ctx, c, position(200))
			}
			return following.Record(ctx, c, position(100))
		}},
		{"copy_follow, forgotten", func(ctx context.Context, again bool) error {
			if again {
				return following.Forget(ctx, c)
			}
			return nil
		}},
		{"copy_verified", func(ctx context.Context, again bool) error {
			if again {
				return s.ForgetVerified(ctx, c, l.First)
			}
			return s.Verified(ctx, c, l.First, chunk(0, "10"))
		}},
		{"all, emptied", func(ctx context.Context, again bool) error {
			if again {
				return s.Empty(ctx, c, l.First)
			}
			return nil
		}},
	} {
		if err := write.do(t.Context(), false); err != nil {
			t.Fatalf("%s, with the lease: %v", write.name, err)
		}
		fences = append(fences, fence{write.name, func(ctx context.Context) error { return write.do(ctx, true) }})
	}
	takeOver(t, p, l, holder, c)
	all := func() (content []string) {
		for _, table := range []string{"copy_table", "copy_chunk", "copy_definition", "copy_follow", "copy_verified"} {
			content = append(content, read(t, p.target, "SELECT * FROM _tare."+table)...)
		}
		return slices.Concat(content, read(t, p.target, "SELECT * FROM lease.a"))
	}
	before := all()
	for _, f := range fences {
		if err := f.write(t.Context()); !errors.Is(err, state.ErrLeaseLost) {
			t.Errorf("%s, without the lease: %v", f.name, err)
		}
		if diff := cmp.Diff(before, all()); diff != "" {
			t.Fatalf("%s, without the lease, changed:\n%s", f.name, diff)
		}
	}
}

// takeOver closes the session of a lease and has another run take over its table.
func takeOver(t *testing.T, p *pair, l *state.Lease, holder, c *mysqlconn.Client) {
	t.Helper()
	_ = holder.Close()
	testwait.Until(t, "the server notices that the holder is gone", func() bool { return l.Confirm(t.Context(), c) != nil })
	if _, _, err := p.acquire(t, "a"); err != nil {
		t.Fatal(err)
	}
}

// TestStateDeadlock has the server end a read of the state in a deadlock with another run: it is repeated.
func TestStateDeadlock(t *testing.T) {
	p := newPair(t, "deadlock")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(500))", "INSERT INTO a SELECT seq, REPEAT('x', 500) FROM seq_1_to_50")
	o := p.options("a")
	o.ChunkBytes = 1 << 10
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	const chunks = "_tare.copy_chunk"
	want := len(read(t, p.target, "SELECT 1 FROM "+chunks))
	if want < 2 {
		t.Fatalf("%d chunks", want)
	}
	// The other transaction has changed rows: of the two, the server rolls back the read. Without FORCE INDEX, the
	// server may scan the whole table and lock the first row too.
	other, watch := connect(t, root(p.to)), connect(t, root(p.to))
	sqlExec(t, other, "START TRANSACTION", "UPDATE "+chunks+" FORCE INDEX (PRIMARY) SET row_count = row_count + 1 WHERE target_schema = 'deadlock' AND target_table = 'a' AND chunk > 0")
	var loaded *tabledef.Recorded
	done := make(chan error, 1)
	go func() {
		var err error
		loaded, err = state.State{Schema: state.DefaultStateSchema}.Load(t.Context(), p.target, &tabledef.Spec{Schema: "deadlock", Name: "a", ToSchema: "deadlock", ToName: "a"}, 1)
		done <- err
	}()
	testwait.Until(t, "the read to wait for the other transaction", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the read of %v has not waited: %v", loaded, err)
		default:
		}
		return len(read(t, watch, "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT chunk, after_key%' AND TIME_MS > 200")) > 0
	})
	before := deadlocks(t, watch)
	sqlExec(t, other, "UPDATE "+chunks+" SET row_count = row_count + 1 WHERE target_schema = 'deadlock' AND target_table = 'a' AND chunk = 0", "ROLLBACK")
	if err := testwait.Receive(t, "the read of the state", done); err != nil {
		t.Fatal(err)
	}
	if len(loaded.Chunks) != want {
		t.Errorf("%d chunks were read, want %d", len(loaded.Chunks), want)
	}
	if n := deadlocks(t, watch); n == before {
		t.Error("the server has resolved no deadlock")
	}
}

// deadlocks returns the number of deadlocks that a server has resolved.
func deadlocks(t *testing.T, c *mysqlconn.Client) string {
	t.Helper()
	return read(t, c, "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")[0]
}
