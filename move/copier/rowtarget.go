package copier

import (
	"context"
	"errors"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/mysql/rowstream"
)

// A rowTarget is where one worker writes the rows that it reads. Tables are identified by their number. It must not be used concurrently; several
// workers have one each, of the same target.
//
// Its contract, which TestRowTargets and TestFileTarget check for all implementations:
//
//   - What a method has done persists, at once or with the next checkpoint: a later run that reads the target's state resumes after it. After an
//     error it is done or not done, and a later run may repeat it.
//   - cut records a chunk before a row of it is copied. The chunks of a table are cut in order, by one worker at a time.
//   - copy makes the target's rows of a chunk those that read passes, and records the chunk as copied: both or neither, whatever is killed or
//     when. It calls read until a transaction with all rows is committed, at least once unless the target has the chunk.
//   - read passes all rows of the chunk to write, in batches. A batch is valid until write returns. Once write has failed, it is not called again. settle
//     ends the statement in progress before a pause. read returns a state.SourceError, or the error of write or settle.
//   - finish builds the indexes that were left out, and records the table as finished. It is called once all chunks are copied.
//   - The first error of a SourceError's kind, or one that repeating does not help against, is returned. Others are retried within the patience.
type rowTarget interface {
	cut(ctx context.Context, table int, c rowstream.Chunk) error
	copy(ctx context.Context, table int, c rowstream.Chunk, read rowRead) error
	finish(ctx context.Context, table int) error

	// close closes the connections, which rolls an open transaction back.
	close()
}

// A rowRead reads the rows of a chunk: see rowTarget.
type rowRead func(write func(*rowstream.Batch) error, settle func() error) error

var (
	_ rowTarget = (*oneTarget)(nil)
	_ rowTarget = (*splitTarget)(nil)
	_ rowTarget = (*fileTarget)(nil)
)

// A oneTarget is the tables of one server, written over one connection.
type oneTarget struct {
	*rowsPhase
	view   rowstream.ViewReader // nil unless all rows are read in one view
	writer *state.Writer
}

func newOneTarget(p *rowsPhase, view rowstream.ViewReader) *oneTarget {
	return &oneTarget{rowsPhase: p, view: view, writer: p.newWriter()}
}

func (w *oneTarget) close() { w.writer.Close() }

// cut implements rowTarget.
func (w *oneTarget) cut(ctx context.Context, number int, c rowstream.Chunk) error {
	t := w.tables[number]
	w.writer.Table, w.writer.Chunk = t.Spec.Source(), c.Number
	if err := w.writer.Retry(ctx, func() error { return w.state.Cut(ctx, w.writer.Conn, t.Spec, c) }); err != nil {
		return err
	}
	if c.Number == 0 {
		w.begin(number, c.Upto)
	}
	return nil
}

// copy implements rowTarget.
func (w *oneTarget) copy(ctx context.Context, number int, c rowstream.Chunk, read rowRead) error {
	t := w.tables[number]
	w.writer.Table, w.writer.Chunk = t.Spec.Source(), c.Number
	var rows, bytes int64
	var conflict state.ConflictWait
	defer func() {
		w.writer.Careful = false
		conflict.End()
	}()
	for try, done := 1, false; !done; try++ {
		var err error
		if rows, bytes, err = w.tryCopy(ctx, t, c, read); err == nil {
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
			return err
		}
	}
	progress := w.add(number, c, rows, bytes)
	w.o.Observe(telemetry.Event{Kind: telemetry.EventChunk, Table: t.Spec.Source(), Chunk: c.Number, Rows: rows, Bytes: bytes, Progress: progress})
	return nil
}

// tryCopy copies a chunk in one transaction. It returns the rows and bytes even with an error, which may be
// that of a COMMIT.
func (w *oneTarget) tryCopy(ctx context.Context, t *tabledef.Table, c rowstream.Chunk, read rowRead) (rows, bytes int64, err error) {
	chunk, err := w.writer.Begin(ctx, &t.Target)
	if err != nil {
		return 0, 0, err
	}
	defer chunk.Abort()
	if err := read(func(b *rowstream.Batch) error {
		if t.Target.Owned != nil {
			if err := t.Target.Owned.CheckBatch(b); err != nil {
				return state.SourceError{Err: w.readError(t, err)}
			}
		}
		bytes += int64(len(b.Bytes))
		return chunk.Write(ctx, b)
	}, func() error { return chunk.Settle(ctx) }); err != nil {
		return 0, 0, err
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

// finish implements rowTarget.
func (w *oneTarget) finish(ctx context.Context, number int) error {
	t := w.tables[number]
	w.writer.Table, w.writer.Chunk = t.Spec.Source(), 0
	if len(t.State.Indexes) > 0 {
		w.o.Observe(telemetry.Event{Kind: telemetry.EventIndexes, Table: t.Spec.Source(), Text: tabledef.JoinIndexes(t.State.Indexes)})
	}
	if err := w.writer.Retry(ctx, func() error {
		c := w.writer.Conn
		s, key := w.state, len(t.Source.Key)
		if err := s.SetPhase(ctx, c, t.Spec, tabledef.Indexing, key); err != nil {
			return err
		}
		if w.o.Throttle.Limited() {
			if err := useOneThread(ctx, c); err != nil {
				return err
			}
		}
		if err := buildTableIndexes(ctx, t, c, s.Lease, w.o.Patience); err != nil {
			return err
		}
		return s.SetPhase(ctx, c, t.Spec, tabledef.Finished, key)
	}); err != nil {
		return err
	}
	w.o.Observe(telemetry.Event{Kind: telemetry.EventDone, Table: t.Spec.Source(), Rows: w.copied(number)})
	return nil
}
