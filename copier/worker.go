package copier

import (
	"context"

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
	writer   *writer
	throttle *tick.Throttle
	pace     *throttle.Pace
}

func newWorker(r *run, number int) *worker {
	pace := r.pacer.Join()
	w := &worker{
		run: r, throttle: tick.NewThrottle(tick.Process(), pace.MayGoOn), pace: pace,
		writer: &writer{cfg: r.o.To, state: r.state, patience: r.o.Patience, follows: r.o.Follow, waits: r.o.waits},
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
	w.writer.close()
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
	c, err := t.bound.cut(ctx, w.reader, t, w.run.o.ChunkBytes, w.run.nextChunk(number))
	if err != nil {
		return t.readError(err)
	}
	w.tellRetries(t, c.Number)
	if err := w.writer.again(ctx, func() error { return w.run.state.cut(ctx, w.writer.c, t.spec, c) }); err != nil {
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
		if t.bound.empty() {
			return nil
		}
		var writeErr error
		o := rowstream.ReadOptions{Where: t.spec.Where, Plan: t.plan, Throttle: w.throttle}
		for b, err := range w.reader.Read(ctx, t.source, t.bound.within(c), o) {
			if err != nil {
				return sourceError{t.readError(err)}
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
				return sourceError{err}
			}
		}
		return writeErr
	}
	w.tellRetries(t, c.Number)
	w.writer.check = nil
	if g := t.generatedComparison(); g != nil {
		w.writer.check = func(ctx context.Context, to *mysqlconn.Client) error { return w.checkGenerated(ctx, g, c, to) }
	}
	rows, err := w.writer.copyChunk(ctx, &t.target, c, read)
	if err != nil {
		return err
	}
	w.run.mu.Lock()
	w.run.rows[number] += rows
	w.run.bytes[number] += bytes
	progress := w.run.progress()
	w.run.mu.Unlock()
	w.run.o.Observe(Event{Kind: EventChunk, Table: t.spec.source(), Chunk: c.Number, Rows: rows, Bytes: bytes, Progress: progress})
	w.run.tell(func(m *machine) { m.wasCopied(number) })
	return nil
}

// tellRetries makes the writer tell what it repeats.
func (w *worker) tellRetries(t *table, chunk int) {
	w.writer.retry = func(err error) {
		w.run.o.Observe(Event{Kind: EventRetry, Table: t.spec.source(), Chunk: chunk, Text: err.Error()})
	}
}

// buildIndexes gives a table its indexes and ends it.
func (w *worker) buildIndexes(ctx context.Context, number int) error {
	t := w.run.tables[number]
	w.tellRetries(t, 0)
	if len(t.state.indexes) > 0 {
		w.run.o.Observe(Event{Kind: EventIndexes, Table: t.spec.source(), Text: joinIndexes(t.state.indexes)})
	}
	if err := w.writer.again(ctx, func() error {
		c := w.writer.c
		s, key := w.run.state, len(t.source.Key)
		if err := s.enter(ctx, c, t.spec, indexing, key); err != nil {
			return err
		}
		if err := t.buildIndexes(ctx, c, s.lease, w.run.o.Patience); err != nil {
			return err
		}
		return s.enter(ctx, c, t.spec, finished, key)
	}); err != nil {
		return err
	}
	w.run.o.Observe(Event{Kind: EventDone, Table: t.spec.source(), Rows: w.run.copied(number)})
	w.run.tell(func(m *machine) { m.wasIndexed(number) })
	return nil
}
