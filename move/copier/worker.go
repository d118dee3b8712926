package copier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/mysql/rowstream"
)

// sliceBytes is the size of a batch where there is a limit: the target writes it in a millisecond or two. Statements of clients that
// come in between wait for a processor that long at most.
const sliceBytes = 24 << 10

// A worker reads chunks over one connection of the snapshot and writes them over one connection to the
// target, batch by batch: read, escape, send. While one worker waits for a server, the others proceed.
type worker struct {
	rows     *rowsPhase
	reader   rowstream.Reader
	view     rowstream.ViewReader   // the reader, unless short is set
	short    *rowstream.ShortReader // the reader while changes are followed; otherwise nil
	writer   *state.Writer
	throttle *tick.Throttle
	pace     *throttle.Pace

	paused time.Duration // of the current chunk's time: the throttle required it
}

func newWorker(p *rowsPhase, number int) *worker {
	pace := p.pacer.Join()
	w := &worker{
		rows: p, throttle: tick.NewThrottle(tick.Process(), pace.MayRun), pace: pace,
		writer: p.newWriter(),
	}
	if p.shortViews() {
		w.short = p.shortReader()
		w.reader = w.short
	} else {
		w.view = p.snapshot.Reader(number)
		w.reader = w.view
	}
	return w
}

func (w *worker) close() {
	w.writer.Close()
	if w.short != nil {
		_ = w.short.Close() // its transaction is read-only
	}
	w.throttle.Close()
}

// work executes steps until there are none.
func (w *worker) work(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s := w.rows.next()
		if s.do == stop {
			return nil
		}
		if err := w.do(ctx, s); err != nil {
			return err
		}
	}
}

// do executes a step when the throttle permits.
func (w *worker) do(ctx context.Context, s step) error {
	defer w.pace.End()
	if err := w.pace.Begin(ctx); err != nil {
		return err
	}
	switch s.do {
	case cutChunk:
		return w.cut(ctx, s.table)
	case copyChunk:
		return w.copy(ctx, s.table, s.chunk)
	case buildIndexes:
		w.pace.End() // building indexes cannot be paused, and no other worker waits for it
		return w.buildIndexes(ctx, s.table)
	}
	panic("BUG: a worker is told to " + s.do.String())
}

// cut cuts a table's next chunk and records it in the state for later runs. One worker per table does so at a
// time.
func (w *worker) cut(ctx context.Context, number int) error {
	t := w.rows.tables[number]
	next := w.rows.nextChunk(number)
	rows := w.rows.sizes[number].Next(t.Source, next.Number, w.rows.o.ChunkBytes)
	c, err := t.Bound.Cut(ctx, w.reader, t, rows, next)
	if err != nil {
		return readError(t, err)
	}
	w.writer.Table, w.writer.Chunk = t.Spec.Source(), c.Number
	if err := w.writer.Retry(ctx, func() error { return w.rows.state.Cut(ctx, w.writer.Conn, t.Spec, c) }); err != nil {
		return err
	}
	w.rows.notify(func(m *machine) {
		if c.Number == 0 {
			w.rows.estimates[number].Begin(t.Source, c.Upto, w.rows.lastKeys[number])
		}
		m.wasCut(number, c, c.Upto == nil)
	})
	return nil
}

// copy copies a chunk. After the table's last one, its indexes are due.
func (w *worker) copy(ctx context.Context, number int, c rowstream.Chunk) error {
	t := w.rows.tables[number]
	w.writer.Table, w.writer.Chunk = t.Spec.Source(), c.Number
	var rows, bytes int64
	var conflict state.ConflictWait
	defer func() {
		w.writer.Careful = false
		conflict.End()
	}()
	for try, done := 1, false; !done; try++ {
		var err error
		began := time.Now()
		w.paused = 0
		if rows, bytes, err = w.tryCopy(ctx, t, c); err == nil {
			w.rows.sizes[number].Copied(c.Number, rows, bytes, time.Since(began)-w.paused)
			break
		}
		if errors.Is(err, state.ErrDuplicate) && !w.writer.Careful {
			w.writer.Careful = true
			w.writer.Close() // rolls the transaction back
			continue
		}
		if conflict.Wait(ctx, w.writer, err) {
			try--
			continue
		}
		if done, err = w.writer.Recover(ctx, &t.Target, c, err, try); err != nil {
			return w.advised(err)
		}
	}
	progress := w.rows.add(number, c, rows, bytes)
	w.rows.o.Observe(telemetry.Event{Kind: telemetry.EventChunk, Table: t.Spec.Source(), Chunk: c.Number, Rows: rows, Bytes: bytes, Progress: progress})
	w.rows.notify(func(m *machine) { m.wasCopied(number) })
	return nil
}

// advised adds advice to an error of an unreachable source.
func (w *worker) advised(err error) error {
	var fromSource state.SourceError
	if !errors.As(err, &fromSource) || !state.IsUnreachable(err) {
		return err
	}
	return fmt.Errorf("%w: the connection to the source %s was lost, and the view that rows were read in with it; start the server, "+
		"and run the same command again: it resumes after the chunks that are copied", err, w.rows.from.Addr())
}

// tryCopy copies a chunk in one transaction. It returns the rows and bytes even with an error, which may be
// that of a COMMIT.
func (w *worker) tryCopy(ctx context.Context, t *tabledef.Table, c rowstream.Chunk) (rows, bytes int64, err error) {
	chunk, err := w.writer.Begin(ctx, &t.Target)
	if err != nil {
		return 0, 0, err
	}
	defer chunk.Abort()
	if !t.Bound.Empty() {
		if bytes, err = w.fill(ctx, chunk, t, c); err != nil {
			return 0, 0, err
		}
	}
	defer w.writer.Waits.Begin("the target to execute a chunk of "+t.Spec.Target(), "", 0)()
	if err := chunk.Settle(ctx); err != nil {
		return 0, 0, err
	}
	if err := verify.Generated(ctx, w.view, w.writer.Conn, t, c); err != nil {
		return 0, 0, err
	}
	return chunk.Rows, bytes, chunk.Commit(ctx, c)
}

// fill writes the rows of a chunk batch by batch, and pauses when the throttle requires it.
func (w *worker) fill(ctx context.Context, chunk *state.ChunkWriter, t *tabledef.Table, c rowstream.Chunk) (bytes int64, err error) {
	moving := func() (moved, end func()) {
		return w.writer.Waits.BeginMoving("rows of " + t.Spec.Source() + " to be read, or taken by the target")
	}
	moved, end := moving()
	defer func() { end() }()
	o := rowstream.ReadOptions{Where: t.Spec.Where, Plan: t.Plan, Throttle: w.throttle}
	if w.rows.o.Throttle.Limited() {
		o.BatchBytes = sliceBytes
	}
	var failed error // error of the target: the remaining rows are read and discarded to keep the view usable
	for b, err := range w.reader.Read(ctx, t.Source, t.Bound.Within(c), o) {
		if err != nil {
			return 0, state.SourceError{Err: readError(t, err)}
		}
		if t.Target.Owned != nil {
			if err := t.Target.Owned.CheckBatch(b); err != nil {
				return 0, state.SourceError{Err: readError(t, err)}
			}
		}
		if failed == nil {
			bytes += int64(len(b.Bytes))
			failed = chunk.Write(ctx, b)
		}
		moved()
		if failed == nil && w.pace.Slowed() { // otherwise many batches could be on their way to the target when a pause is due
			failed = chunk.Settle(ctx)
		}
		if !w.pace.Due() {
			continue
		}
		end()
		began := time.Now()
		err = w.pace.Wait(ctx)
		w.paused += time.Since(began)
		if moved, end = moving(); err != nil {
			return 0, state.SourceError{Err: err}
		}
	}
	return bytes, failed
}

// buildIndexes creates the indexes of a table and records it as finished.
func (w *worker) buildIndexes(ctx context.Context, number int) error {
	t := w.rows.tables[number]
	w.writer.Table, w.writer.Chunk = t.Spec.Source(), 0
	if len(t.State.Indexes) > 0 {
		w.rows.o.Observe(telemetry.Event{Kind: telemetry.EventIndexes, Table: t.Spec.Source(), Text: tabledef.JoinIndexes(t.State.Indexes)})
	}
	if err := w.writer.Retry(ctx, func() error {
		c := w.writer.Conn
		s, key := w.rows.state, len(t.Source.Key)
		if err := s.SetPhase(ctx, c, t.Spec, tabledef.Indexing, key); err != nil {
			return err
		}
		if w.rows.o.Throttle.Limited() {
			if err := useOneThread(ctx, c); err != nil {
				return err
			}
		}
		if err := buildTableIndexes(ctx, t, c, s.Lease, w.rows.o.Patience); err != nil {
			return err
		}
		return s.SetPhase(ctx, c, t.Spec, tabledef.Finished, key)
	}); err != nil {
		return err
	}
	w.rows.o.Observe(telemetry.Event{Kind: telemetry.EventDone, Table: t.Spec.Source(), Rows: w.rows.copied(number)})
	w.rows.notify(func(m *machine) { m.wasIndexed(number) })
	return nil
}
