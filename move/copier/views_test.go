package copier_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// A heldCopy is a copy that is paused while a table is copied, as a throttle pauses it.
type heldCopy struct {
	held   atomic.Bool
	events chan telemetry.Event
	ended  chan error
}

// holdCopy starts a copy that is paused after the first chunk of a table.
func holdCopy(t *testing.T, o copier.Options, table string) *heldCopy {
	t.Helper()
	h := &heldCopy{events: make(chan telemetry.Event, 10_000), ended: make(chan error, 1)}
	var once sync.Once
	o.MayRun = func() bool { return !h.held.Load() }
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventChunk && e.Table == table {
			once.Do(func() { h.held.Store(true) })
		}
		h.events <- e
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		_, err := copier.Run(ctx, o)
		close(h.events)
		h.ended <- err
	}()
	testwait.Until(t, "the copy to be paused", func() bool {
		select {
		case err := <-h.ended:
			t.Fatalf("it ended before: %v", err)
		default:
		}
		return h.held.Load()
	})
	return h
}

// resume resumes the copy, and returns its error and the kinds of the events since the pause.
func (h *heldCopy) resume(t *testing.T) (kinds []telemetry.EventKind, err error) {
	t.Helper()
	for len(h.events) > 0 {
		testwait.Receive(t, "an event", h.events)
	}
	h.held.Store(false)
	err = testwait.Receive(t, "the copy to end", h.ended)
	for e := range h.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds, err
}

func (p *pair) viewTables(t *testing.T) {
	t.Helper()
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS "+p.schema, "DROP DATABASE IF EXISTS _tare")
	sqlExec(t, p.source, "DROP TABLE IF EXISTS a, b", "CREATE TABLE a (id INT PRIMARY KEY, u INT UNIQUE, v VARCHAR(300))", "CREATE TABLE b LIKE a",
		"INSERT INTO a SELECT seq, seq, REPEAT('x', 300) FROM seq_1_to_3000", "INSERT INTO b SELECT * FROM a", "ANALYZE TABLE a, b")
}

// sameRows compares tables on both sides.
func (p *pair) sameRows(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		sql := "SELECT * FROM " + p.schema + "." + name + " ORDER BY id"
		if diff := cmp.Diff(read(t, p.source, sql), read(t, p.target, sql)); diff != "" {
			t.Errorf("table %s (- source, + target):\n%s", name, diff)
		}
	}
}

// TestAlterWhileCopied pauses a copy that follows. Both the table being read and the one already read can
// then be altered, although the copy makes no progress until they are.
func TestAlterWhileCopied(t *testing.T) {
	p := newPair(t, "views")
	for name, over := range map[string]bool{"direct": false, "wire": true} {
		t.Run(name, func(t *testing.T) {
			if p.over = nil; over {
				p.over = overTheWire(t, root(p.from), wire.NoCompression)
			}
			p.viewTables(t)
			o := p.options("a", "b")
			o.Follow, o.UntilCaughtUp, o.Workers, o.ChunkBytes, o.MaxViewAge = true, true, 1, 1<<18, 300*time.Millisecond
			h := holdCopy(t, o, "views.b")
			testrows.AwaitNoTransaction(t, p.source)
			sqlExec(t, p.source, "SET SESSION lock_wait_timeout = 60", "ALTER TABLE a ADD COLUMN w INT DEFAULT 7", "ALTER TABLE b ADD KEY v (v(9))",
				"UPDATE b SET id = id + 100000, u = NULL WHERE id % 3 = 0", "UPDATE b SET u = id + 1 WHERE id % 3 = 2 AND id > 100", "DELETE FROM a WHERE id % 7 = 0")
			kinds, err := h.resume(t)
			var stop *binlog.StopError
			if !errors.As(err, &stop) || stop.Table != "views.a" {
				t.Fatalf("the copy ended with %v, want it to stop at the change of a's definition", err)
			}
			if !slices.Contains(kinds, telemetry.EventChunk) || !slices.Contains(kinds, telemetry.EventFollow) {
				t.Errorf("events after both tables were altered: %q; want chunks, and following", kinds)
			}
			sqlExec(t, p.target, "ALTER TABLE views.a ADD COLUMN w INT DEFAULT 7")
			for range 2 { // the second change stops it again
				if _, err = copier.Run(t.Context(), o); !errors.As(err, &stop) {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			p.sameRows(t, "a", "b")
		})
	}
}

// TestAlterBetweenViews changes the columns of a table while it is copied: the copy and the next run end with
// the reason.
func TestAlterBetweenViews(t *testing.T) {
	p := newPair(t, "views")
	p.viewTables(t)
	o := p.options("a", "b")
	o.Follow, o.UntilCaughtUp, o.Workers, o.ChunkBytes, o.MaxViewAge = true, true, 1, 1<<18, 300*time.Millisecond
	h := holdCopy(t, o, "views.b")
	sqlExec(t, p.source, "SET SESSION lock_wait_timeout = 60", "ALTER TABLE b CHANGE u w INT, ADD COLUMN u INT")
	const want = "while its rows were being copied, so they have two forms"
	if _, err := h.resume(t); !errors.Is(err, rowstream.ErrAltered) || !strings.Contains(err.Error(), want) {
		t.Fatalf("after other columns: %v", err)
	}
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("the next run: %v", err)
	}
	o.Restart = true
	sqlExec(t, p.target, "DROP TABLE views.b")
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	p.sameRows(t, "a", "b")
}
