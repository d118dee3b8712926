package dump

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/mysql/rowstream"
)

// Progress is checkpointed in the manifest of the unfinished dump every leastPause, and so rarely that it takes at most a
// twentieth of the time.
const (
	leastPause = 200 * time.Millisecond
	pauseShare = 20
)

// readRows reads the rows of all tables with several workers.
func (w *writer) readRows(ctx context.Context) error {
	for _, t := range w.tables {
		w.o.Observe(telemetry.Event{Kind: telemetry.EventTable, Table: t.spec.Source(), Chunks: t.before, RowsEstimate: t.source.RowsEstimate})
	}
	for _, t := range w.tables {
		if len(t.source.Key) > 0 {
			t.last, _ = w.view.Reader(0).LastKey(ctx, t.source) // an error recurs when rows are read
		}
		if len(t.out.Chunks) > 0 {
			t.estimate.Begin(t.source, t.out.Chunks[0].Upto, t.last)
		}
	}
	w.started = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	for i := range w.o.Workers {
		workers.Go(func() {
			if err := w.work(ctx, i); err != nil {
				w.fail(err)
				cancel()
			}
		})
	}
	workers.Wait()
	if w.err != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
		defer cancel()
		return errors.Join(w.err, w.save(last))
	}
	return w.save(ctx)
}

// lastSave bounds the time to save the progress of a run that fails or is stopped.
const lastSave = 5 * time.Second

// fail records the first error and stops the workers.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || errors.Is(w.err, context.Canceled) {
		w.err = err
	}
	w.changed.Broadcast()
}

// A worker reads chunks over one connection of the snapshot.
type worker struct {
	w        *writer
	reader   rowstream.ViewReader
	pace     *throttle.Pace
	throttle *tick.Throttle
	files    *chunkWriter
}

func (w *writer) work(ctx context.Context, number int) error {
	files, err := newChunkWriter(&w.o.To)
	if err != nil {
		return err
	}
	pace := w.o.Pacer.Join()
	k := &worker{w: w, reader: w.view.Reader(number), pace: pace, throttle: tick.NewThrottle(tick.Process(), pace.MayRun), files: files}
	defer k.throttle.Close()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t, chunk := w.next()
		if t == nil {
			return nil
		}
		if err := k.do(ctx, t, chunk); err != nil {
			return err
		}
	}
}

// next blocks until there is work: a chunk of a table, or -1 for one that is to be cut. It returns nil if there is none any more. Tables are
// taken in order.
func (w *writer) next() (*tableRun, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil {
		busy := false
		for _, t := range w.tables {
			switch {
			case len(t.pending) > 0:
				chunk := t.pending[0]
				t.pending = t.pending[1:]
				return t, chunk
			case t.cutting:
				busy = true
			case !t.cut:
				t.cutting = true
				return t, -1
			}
		}
		if !busy {
			return nil, 0
		}
		w.changed.Wait()
	}
	return nil, 0
}

// do dumps a chunk, which it cuts first if it has no number, when the throttle permits.
func (k *worker) do(ctx context.Context, t *tableRun, number int) (err error) {
	defer k.pace.End()
	if err := k.pace.Begin(ctx); err != nil {
		return err
	}
	if number < 0 {
		if number, err = k.cut(ctx, t); err != nil {
			return err
		}
	}
	c := t.out.chunk(&k.w.mu, number)
	same, err := k.unchanged(ctx, t, number, &c)
	if err != nil {
		return err
	}
	kind := telemetry.EventVerified
	if !same {
		kind = telemetry.EventChunk
		if err := k.dump(ctx, t, number, &c); err != nil {
			return err
		}
	}
	k.w.done(t, number, &c, kind)
	return k.w.checkpoint(ctx)
}

// chunk returns a copy of a chunk. Its bounds never change.
func (t *Table) chunk(mu *sync.Mutex, number int) Chunk {
	mu.Lock()
	defer mu.Unlock()
	return *t.Chunks[number]
}

// bounds returns the range of a chunk.
func (k *Chunk) bounds(number int) rowstream.Chunk {
	return rowstream.Chunk{Number: number, After: k.After, Upto: k.Upto}
}

// cut cuts the next chunk of a table.
func (k *worker) cut(ctx context.Context, t *tableRun) (int, error) {
	w := k.w
	w.mu.Lock()
	from := rowstream.Chunk{Number: len(t.out.Chunks)}
	if from.Number > 0 {
		from.After = t.out.Chunks[from.Number-1].Upto
	}
	w.mu.Unlock()
	c, err := tabledef.CutRows(ctx, k.reader, t.source, t.sizing.Next(t.source, from.Number, w.o.ChunkBytes), from)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Number == 0 {
		t.estimate.Begin(t.source, c.Upto, t.last)
	}
	t.out.Chunks = append(t.out.Chunks, &Chunk{After: c.After, Upto: c.Upto, Files: []File{}})
	t.cutting, t.cut = false, c.Upto == nil
	t.left++
	w.changed.Broadcast()
	return c.Number, nil
}

// summed returns the rows of the table that are dumped, for checksums.
func (t *tableRun) summed(columns []int) rowstream.SumOptions {
	return rowstream.SumOptions{Where: t.spec.Where, Plan: t.plan, Columns: columns}
}

// unchanged reports whether the rows of a chunk that an interrupted run has dumped are the same in this snapshot.
func (k *worker) unchanged(ctx context.Context, t *tableRun, number int, c *Chunk) (bool, error) {
	if !c.Done {
		return false, nil
	}
	for _, s := range append([]ColumnSum{{Columns: numbers(len(t.source.Columns)), Sum: c.Sum}}, c.Sums...) {
		now, err := rowstream.SumChunk(ctx, k.reader, t.source, c.bounds(number), t.summed(s.Columns))
		if err != nil {
			return false, err
		}
		if now.Rows != c.Rows || rowSum(now.Sum) != s.Sum {
			return false, nil
		}
	}
	return true, nil
}

// dump reads the rows of a chunk into files, and completes its description.
func (k *worker) dump(ctx context.Context, t *tableRun, number int, c *Chunk) error {
	dir, run := t.out.dir(), k.w.run
	k.files.begin(func(part int) string {
		if part == 0 {
			return fmt.Sprintf("%s/%08d-%s%s", dir, number, run, chunkSuffix)
		}
		return fmt.Sprintf("%s/%08d-%s-%d%s", dir, number, run, part, chunkSuffix)
	})
	sum, bytes, err := k.fill(ctx, t, c.bounds(number))
	if err != nil {
		return err
	}
	t.sizing.Copied(number, sum.Rows, bytes, 0) // no lock is kept, whatever the time
	*c = Chunk{After: c.After, Upto: c.Upto, Done: true, Rows: sum.Rows, Bytes: bytes, Sum: rowSum(sum.Sum), Files: []File{}}
	files, err := k.files.end(ctx)
	if err != nil {
		return err
	}
	c.Files = append(c.Files, files...)
	for _, columns := range t.sums {
		s, err := rowstream.SumChunk(ctx, k.reader, t.source, c.bounds(number), t.summed(columns))
		if err != nil {
			return err
		}
		c.Sums = append(c.Sums, ColumnSum{Columns: columns, Sum: rowSum(s.Sum)})
	}
	return k.verify(ctx, t, number, c, sum)
}

// fill reads the rows of a chunk into files.
func (k *worker) fill(ctx context.Context, t *tableRun, c rowstream.Chunk) (sum rowstream.Checksum, bytes int64, err error) {
	summer := rowstream.NewBatchSummer(t.source)
	moved, end := k.w.o.Waits.BeginMoving("rows of " + t.spec.Source() + " to be read, or written to " + k.w.o.To.Name)
	defer func() { end() }()
	for b, err := range k.reader.Read(ctx, t.source, c, rowstream.ReadOptions{Where: t.spec.Where, Plan: t.plan, Throttle: k.throttle}) {
		if err == nil {
			err = summer.Add(&sum, b)
		}
		if err == nil {
			err = k.files.write(ctx, b)
		}
		if err == nil && k.pace.Due() {
			err = k.pace.Wait(ctx)
		}
		if err != nil { // the run ends, so the view need not stay usable
			return sum, bytes, err
		}
		bytes += int64(len(b.Bytes))
		moved()
	}
	return sum, bytes, nil
}

// verify has the source sum up the rows that were read, if that was requested.
func (k *worker) verify(ctx context.Context, t *tableRun, number int, c *Chunk, read rowstream.Checksum) error {
	if !k.w.o.Verify {
		return nil
	}
	there, err := rowstream.SumChunk(ctx, k.reader, t.source, c.bounds(number), t.summed(numbers(len(t.source.Columns))))
	if err == nil && there != read {
		err = fmt.Errorf("verify chunk %d of %s: the source's checksum is %v, that of the rows read from it is %v: the server sends other values than it stores, such as 0 for -0; "+
			"correct them, or dump without option verify", number, t.spec.Source(), there, read)
	}
	return err
}

// done records a finished chunk.
func (w *writer) done(t *tableRun, number int, c *Chunk, kind telemetry.EventKind) {
	w.mu.Lock()
	if was := t.out.Chunks[number]; was.Done && kind == telemetry.EventChunk {
		t.before-- // its rows have changed
	}
	t.out.Chunks[number] = c
	t.left--
	t.rows += c.Rows
	t.estimate.Add(c.bounds(number), c.Rows)
	if kind == telemetry.EventChunk {
		w.rows, w.bytes = w.rows+c.Rows, w.bytes+c.Bytes
	}
	finished, rows := t.cut && t.left == 0, t.rows
	progress := w.progress()
	w.mu.Unlock()
	w.o.Observe(telemetry.Event{Kind: kind, Table: t.spec.Source(), Chunk: number, Rows: c.Rows, Bytes: c.Bytes, Progress: progress})
	if finished {
		w.o.Observe(telemetry.Event{Kind: telemetry.EventDone, Table: t.spec.Source(), Rows: rows})
	}
}

// progress returns the progress of all tables. The caller holds mu.
func (w *writer) progress() *telemetry.CopyProgress {
	counts := make([]telemetry.TableCount, len(w.tables))
	for i, t := range w.tables {
		counts[i] = t.estimate.Count(t.rows, t.source)
		counts[i].Copied = t.cut && t.left == 0
	}
	return telemetry.NewCopyProgress(counts, w.rows, w.bytes, time.Since(w.started))
}

// checkpoint saves the progress if it is time to.
func (w *writer) checkpoint(ctx context.Context) error {
	w.mu.Lock()
	due := !w.saving && time.Since(w.saved) >= max(leastPause, w.pause)
	w.saving = w.saving || due
	w.mu.Unlock()
	if !due {
		return nil
	}
	return w.save(ctx)
}

// save writes the manifest of the unfinished dump.
func (w *writer) save(ctx context.Context) error {
	began := time.Now()
	w.mu.Lock()
	text, err := w.m.encode()
	w.mu.Unlock()
	if err == nil {
		_, err = w.o.To.put(ctx, partialName, text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saving, w.saved, w.pause = false, time.Now(), pauseShare*time.Since(began)
	return err
}
