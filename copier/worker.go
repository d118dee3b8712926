package copier

import (
	"context"

	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/rowstream"
	"github.com/taredb/tare/throttle"
	"github.com/taredb/tare/tick"
)

// A worker reads chunks over one connection of the snapshot and writes them over one to the
// target, a batch at a time: read, escape, send. While one worker waits for a server, the
// others work.
type worker struct {
	run      *run
	reader   rowstream.Reader
	view     rowstream.ViewReader   // the reader, unless it reads through short views
	short    *rowstream.ShortReader // the reader, when changes are followed; otherwise nil
	writer   *state.Writer
	throttle *tick.Throttle
	pace     *throttle.Pace
}

func newWorker(r *run, number int) *worker {
	pace := r.pacer.Join()
	w := &worker{
		run: r, throttle: tick.NewThrottle(tick.Process(), pace.MayGoOn), pace: pace,
		writer: &state.Writer{Cfg: r.o.To, State: r.state, Patience: r.o.Patience, Follows: r.o.Follow, Waits: r.o.waits},
	}
	if r.shortViews() {
		w.short = r.shortReader()
		w.reader = w.short
	} else {
		w.view = r.snapshot.Reader(number)
		w.reader = w.view
	}
	return w
}

func (w *worker) close() {
	w.writer.Close()
	if w.short != nil {
		_ = w.short.Close() // its transaction reads only
	}
	w.throttle.Close()
}

// work does steps until there are none.
func (w *worker) work(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s := w.run.next()
		if s.do == stop {
			return nil
		}
		if err := w.do(ctx, s); err != nil {
			return err
		}
	}
}

// do does a step, once the throttle lets it.
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
		w.pace.End() // it cannot be slowed down, and nobody waits for it
		return w.buildIndexes(ctx, s.table)
	}
	panic("BUG: a worker is told to " + s.do.String())
}

// cut cuts a table's next chunk and notes it in the state, where a later run finds it. One
// worker at a time does so for a table.
func (w *worker) cut(ctx context.Context, number int) error {
	t := w.run.tables[number]
	c, err := t.Bound.Cut(ctx, w.reader, t, w.run.o.ChunkBytes, w.run.nextChunk(number))
	if err != nil {
		return readError(t, err)
	}
	w.tellRetries(t, c.Number)
	if err := w.writer.Again(ctx, func() error { return w.run.state.Cut(ctx, w.writer.Conn, t.Spec, c) }); err != nil {
		return err
	}
	w.run.tell(func(m *machine) { m.wasCut(number, c, c.Upto == nil) })
	return nil
}

// copy copies a chunk. After the table's last one, its indexes are due.
func (w *worker) copy(ctx context.Context, number int, c rowstream.Chunk) error {
	t := w.run.tables[number]
	var bytes int64
	read := func(each func(*rowstream.Batch) error, settle func() error) error {
		bytes = 0
		if t.Bound.Empty() {
			return nil
		}
		var writeErr error
		o := rowstream.ReadOptions{Where: t.Spec.Where, Plan: t.Plan, Throttle: w.throttle}
		for b, err := range w.reader.Read(ctx, t.Source, t.Bound.Within(c), o) {
			if err != nil {
				return state.SourceError{Err: readError(t, err)}
			}
			if writeErr == nil { // otherwise the rest is read and dropped, so that the view is not lost
				bytes += int64(len(b.Bytes))
				writeErr = each(b)
			}
			if !w.pace.Due() {
				continue
			}
			if writeErr == nil {
				writeErr = settle()
			}
			if err := w.pace.Rest(ctx); err != nil {
				return state.SourceError{Err: err}
			}
		}
		return writeErr
	}
	w.tellRetries(t, c.Number)
	w.writer.Check = nil
	if g := generatedComparison(t); g != nil {
		w.writer.Check = func(ctx context.Context, to *mysqlconn.Client) error { return w.checkGenerated(ctx, g, c, to) }
	}
	rows, err := w.writer.CopyChunk(ctx, &t.Target, c, read)
	if err != nil {
		return err
	}
	w.run.mu.Lock()
	w.run.rows[number] += rows
	w.run.bytes[number] += bytes
	progress := w.run.progress()
	w.run.mu.Unlock()
	w.run.o.Observe(telemetry.Event{Kind: telemetry.EventChunk, Table: t.Spec.Source(), Chunk: c.Number, Rows: rows, Bytes: bytes, Progress: progress})
	w.run.tell(func(m *machine) { m.wasCopied(number) })
	return nil
}

// tellRetries makes the writer tell what it repeats.
func (w *worker) tellRetries(t *tabledef.Table, chunk int) {
	w.writer.Retry = func(err error) {
		w.run.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Table: t.Spec.Source(), Chunk: chunk, Text: err.Error()})
	}
}

// buildIndexes gives a table its indexes and ends it.
func (w *worker) buildIndexes(ctx context.Context, number int) error {
	t := w.run.tables[number]
	w.tellRetries(t, 0)
	if len(t.State.Indexes) > 0 {
		w.run.o.Observe(telemetry.Event{Kind: telemetry.EventIndexes, Table: t.Spec.Source(), Text: tabledef.JoinIndexes(t.State.Indexes)})
	}
	if err := w.writer.Again(ctx, func() error {
		c := w.writer.Conn
		s, key := w.run.state, len(t.Source.Key)
		if err := s.Enter(ctx, c, t.Spec, tabledef.Indexing, key); err != nil {
			return err
		}
		if err := buildTableIndexes(t, ctx, c, s.Lease, w.run.o.Patience); err != nil {
			return err
		}
		return s.Enter(ctx, c, t.Spec, tabledef.Finished, key)
	}); err != nil {
		return err
	}
	w.run.o.Observe(telemetry.Event{Kind: telemetry.EventDone, Table: t.Spec.Source(), Rows: w.run.copied(number)})
	w.run.tell(func(m *machine) { m.wasIndexed(number) })
	return nil
}
