package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/mysql/rowstream"
)

// sliceBytes is the size of a batch where there is a limit: the target writes it in a millisecond or two. Statements of clients that
// come in between wait for a processor that long at most.
const sliceBytes = 24 << 10

// A worker reads chunks over one connection to the source and passes their rows to its target, batch by batch: read, escape, send.
// While one worker waits for a server, the others proceed.
type worker struct {
	*reading
	reader   rowstream.Reader
	short    *rowstream.ShortReader // the reader while changes are followed; otherwise nil
	target   rowTarget
	throttle *tick.Throttle
	pace     paces

	chunk chunkRead
}

// A chunkRead counts what was read of the current chunk, without what its target has requested a second time.
type chunkRead struct {
	rows, bytes int64
	began       time.Time
	paused      time.Duration // the throttle required it
}

func newWorker(r *reading, number int) *worker {
	first := r.phases[0]
	w := &worker{reading: r}
	for _, p := range r.phases {
		w.pace = append(w.pace, p.pacer.Join())
	}
	w.throttle = tick.NewThrottle(tick.Process(), w.pace.MayRun)
	var view rowstream.ViewReader
	if first.shortViews() {
		w.short = first.shortReader()
		w.reader = w.short
	} else {
		view = first.snapshot.Reader(number)
		w.reader = view
	}
	switch {
	case r.toFiles():
		w.target = newFileTarget(first, view)
	case len(r.phases) == 1:
		w.target = newOneTarget(first, view)
	default:
		w.target = newSplitTarget(r.phases)
	}
	return w
}

func (w *worker) close() {
	w.target.close()
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
		s := w.next()
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

// cut cuts a table's next chunk and records it for later runs. One worker per table does so at a time.
func (w *worker) cut(ctx context.Context, number int) error {
	t := w.tables[number]
	next := w.nextChunk(number)
	rows := w.sizes[number].Next(t.Source, next.Number, w.phases[0].o.ChunkBytes)
	c, err := w.bounds[number].Cut(ctx, w.reader, t, rows, next)
	if err != nil {
		return w.phases[0].readError(t, err)
	}
	if err := w.target.cut(ctx, number, c); err != nil {
		return err
	}
	w.notify(func(m *machine) { m.wasCut(number, c, c.Upto == nil) })
	return nil
}

// copy copies a chunk. After the table's last one, its indexes are due.
func (w *worker) copy(ctx context.Context, number int, c rowstream.Chunk) error {
	w.chunk = chunkRead{began: time.Now()}
	if err := w.target.copy(ctx, number, c, func(write func(*rowstream.Batch) error, settle func() error) error {
		w.chunk = chunkRead{began: time.Now()}
		return w.fill(ctx, number, c, write, settle)
	}); err != nil {
		return w.advised(err)
	}
	took := time.Since(w.chunk.began) - w.chunk.paused
	if w.toFiles() { // no lock is held meanwhile
		took = 0
	}
	w.sizes[number].Copied(c.Number, w.chunk.rows, w.chunk.bytes, took)
	w.notify(func(m *machine) { m.wasCopied(number) })
	return nil
}

// advised adds advice to an error of an unreachable source.
func (w *worker) advised(err error) error {
	var fromSource state.SourceError
	if !errors.As(err, &fromSource) || !state.IsUnreachable(err) {
		return err
	}
	return fmt.Errorf("%w: the connection to the source %s was lost, and the view that rows were read in with it; start the server, "+
		"and run the same command again: it resumes after the chunks that are copied", err, w.phases[0].from.Addr())
}

// fill passes the rows of a chunk to write, batch by batch, and pauses when the throttle requires it. If write fails, the remaining rows are read
// and discarded to keep the view usable, unless the run ends.
func (w *worker) fill(ctx context.Context, number int, c rowstream.Chunk, write func(*rowstream.Batch) error, settle func() error) error {
	t, bound := w.tables[number], &w.bounds[number]
	if bound.Empty() {
		return nil
	}
	moving := func() (moved, end func()) {
		return w.phases[0].o.waits.BeginMoving("rows of " + t.Spec.Source() + " to be read, or taken by the target")
	}
	moved, end := moving()
	defer func() { end() }()
	var failed error // error of the target
	for b, err := range w.reader.Read(ctx, t.Source, bound.Within(c), w.options(number)) {
		if err != nil {
			return state.SourceError{Err: w.phases[0].readError(t, err)}
		}
		w.chunk.rows += int64(b.Rows)
		w.chunk.bytes += int64(len(b.Bytes))
		if failed == nil {
			failed = write(b)
		}
		if failed != nil && w.toFiles() {
			return failed
		}
		moved()
		if failed == nil && w.pace.Slowed() { // otherwise many batches could be on their way to the target when a pause is due
			failed = settle()
		}
		if !w.pace.Due() {
			continue
		}
		end()
		began := time.Now()
		err = w.pace.Wait(ctx)
		w.chunk.paused += time.Since(began)
		if moved, end = moving(); err != nil {
			return state.SourceError{Err: err}
		}
	}
	return failed
}

// options returns which rows of a table are read. Those of several targets are divided among them afterwards.
func (w *worker) options(number int) rowstream.ReadOptions {
	o := rowstream.ReadOptions{Throttle: w.throttle}
	if w.limited() {
		o.BatchBytes = sliceBytes
	}
	if len(w.phases) == 1 {
		o.Where, o.Plan = w.tables[number].Spec.Where, w.tables[number].Plan
	} else {
		o.Where = anyOf(w.phases, number)
	}
	return o
}

// buildIndexes creates the indexes of a table and records it as finished.
func (w *worker) buildIndexes(ctx context.Context, number int) error {
	if err := w.target.finish(ctx, number); err != nil {
		return err
	}
	w.notify(func(m *machine) { m.wasIndexed(number) })
	return nil
}

// paces are the handles of a worker that shares the rates of one or several copies. All workers have them in the same order, so that no two wait
// for each other.
type paces []*throttle.Pace

// MayRun is Pace.MayRun of all.
func (p paces) MayRun() bool {
	return !slices.ContainsFunc(p, func(one *throttle.Pace) bool { return !one.MayRun() })
}

// Begin blocks until all permit a step.
func (p paces) Begin(ctx context.Context) error {
	for _, one := range p {
		if err := one.Begin(ctx); err != nil {
			return err
		}
	}
	return nil
}

// End ends the step.
func (p paces) End() {
	for _, one := range p {
		one.End()
	}
}

// Slowed reports whether one of the rates is below full speed.
func (p paces) Slowed() bool { return slices.ContainsFunc(p, (*throttle.Pace).Slowed) }

// Due reports whether one of them requires a pause.
func (p paces) Due() bool { return slices.ContainsFunc(p, (*throttle.Pace).Due) }

// Wait pauses until all permit work.
func (p paces) Wait(ctx context.Context) error {
	for _, one := range p {
		if err := one.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
