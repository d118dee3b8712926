package dump

import (
	"context"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/rowstream"
)

// Cut records a chunk of a table. A table's chunks are cut in order, before a row of them is written.
func (w *Writer) Cut(table int, c rowstream.Chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.tables[table].out
	if c.Number == len(out.Chunks) {
		out.Chunks = append(out.Chunks, &Chunk{After: c.After, Upto: c.Upto, Files: []File{}})
	}
}

// Chunks writes chunks one after the other. It reuses its memory.
type Chunks struct {
	w      *Writer
	reader rowstream.ViewReader // of the snapshot, for checksums
	files  *chunkWriter         // nil before the first one
}

// NewChunks returns Chunks for one worker. The reader is of the snapshot.
func (w *Writer) NewChunks(reader rowstream.ViewReader) *Chunks { return &Chunks{w: w, reader: reader} }

// Written describes the rows of a chunk in the dump.
type Written struct {
	Rows, Bytes int64
	Before      bool // an interrupted run has written the rows, which are the same in the snapshot
}

// Write makes the rows of a chunk those that read passes to write, and records them. Read is not called if an interrupted run has written the
// same rows, and its files are intact. After an error the chunk is not recorded.
func (k *Chunks) Write(ctx context.Context, table int, c rowstream.Chunk, read func(write func(*rowstream.Batch) error) error) (Written, error) {
	t := k.w.tables[table]
	was := k.w.cut(t, c.Number)
	same, err := k.unchanged(ctx, t, c, was)
	if err != nil || same {
		return Written{was.Rows, was.Bytes, true}, err
	}
	now, err := k.fill(ctx, t, c, read)
	if err != nil {
		return Written{}, err
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if was.Done {
		t.before-- // its rows have changed, or its files
	}
	t.out.Chunks[c.Number] = now
	return Written{Rows: now.Rows, Bytes: now.Bytes}, nil
}

// Complete returns an error unless all rows of a table are written.
func (w *Writer) Complete(table int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tables[table]
	if err := t.out.finished(); err != nil {
		return fmt.Errorf("dump %s: %w", t.Spec.Source(), err)
	}
	return nil
}

// cut returns a chunk that was cut. It is replaced when its rows are written, and never changed.
func (w *Writer) cut(t *tableRun, number int) *Chunk {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.out.Chunks[number]
}

// bounds returns the range of a chunk.
func (k *Chunk) bounds(number int) rowstream.Chunk {
	return rowstream.Chunk{Number: number, After: k.After, Upto: k.Upto}
}

// summed returns the rows of a table that are dumped, for checksums.
func summed(t *tabledef.Table, columns []int) rowstream.SumOptions {
	return rowstream.SumOptions{Where: t.Spec.Where, Plan: t.Plan, Columns: columns}
}

// unchanged reports whether the rows of a chunk that an interrupted run has written are the same in this snapshot, and its files are intact.
func (k *Chunks) unchanged(ctx context.Context, t *tableRun, c rowstream.Chunk, was *Chunk) (bool, error) {
	if !was.Done {
		return false, nil
	}
	for _, f := range was.Files {
		if intact, err := k.w.o.To.intact(ctx, f); err != nil || !intact {
			return false, err
		}
	}
	for _, s := range append([]ColumnSum{{Columns: numbers(len(t.Source.Columns)), Sum: was.Sum}}, was.Sums...) {
		now, err := rowstream.SumChunk(ctx, k.reader, t.Source, c, summed(t.Table, s.Columns))
		if err != nil {
			return false, err
		}
		if now.Rows != was.Rows || rowSum(now.Sum) != s.Sum {
			return false, nil
		}
	}
	return true, nil
}

// fill writes the rows of a chunk to files, and describes it.
func (k *Chunks) fill(ctx context.Context, t *tableRun, c rowstream.Chunk, read func(write func(*rowstream.Batch) error) error) (*Chunk, error) {
	if k.files == nil {
		var err error
		if k.files, err = newChunkWriter(&k.w.o.To); err != nil {
			return nil, err
		}
	}
	dir, run := t.out.dir(), k.w.run
	k.files.begin(func(part int) string {
		if part == 0 {
			return fmt.Sprintf("%s/%08d-%s%s", dir, c.Number, run, chunkSuffix)
		}
		return fmt.Sprintf("%s/%08d-%s-%d%s", dir, c.Number, run, part, chunkSuffix)
	})
	var sum rowstream.Checksum
	var bytes int64
	summer := rowstream.NewBatchSummer(t.Source)
	if err := read(func(b *rowstream.Batch) error {
		bytes += int64(len(b.Bytes))
		if err := summer.Add(&sum, b); err != nil {
			return err
		}
		return k.files.write(ctx, b)
	}); err != nil {
		return nil, err
	}
	files, err := k.files.end(ctx)
	if err != nil {
		return nil, err
	}
	out := &Chunk{After: c.After, Upto: c.Upto, Done: true, Rows: sum.Rows, Bytes: bytes, Sum: rowSum(sum.Sum), Files: append([]File{}, files...)}
	for _, columns := range t.sums {
		s, err := rowstream.SumChunk(ctx, k.reader, t.Source, c, summed(t.Table, columns))
		if err != nil {
			return nil, err
		}
		out.Sums = append(out.Sums, ColumnSum{Columns: columns, Sum: rowSum(s.Sum)})
	}
	return out, k.verify(ctx, t, c, sum)
}

// verify has the source sum up the rows that were written, if that was requested.
func (k *Chunks) verify(ctx context.Context, t *tableRun, c rowstream.Chunk, written rowstream.Checksum) error {
	if !k.w.o.Verify {
		return nil
	}
	there, err := rowstream.SumChunk(ctx, k.reader, t.Source, c, summed(t.Table, numbers(len(t.Source.Columns))))
	if err == nil && there != written {
		err = fmt.Errorf("verify chunk %d of %s: the source's checksum is %v, that of the rows read from it is %v: the server sends other values than it stores, such as 0 for -0; "+
			"correct them, or dump without option verify", c.Number, t.Spec.Source(), there, written)
	}
	return err
}

// Progress is checkpointed in the manifest of the unfinished dump every leastPause, and so rarely that it takes at most a
// twentieth of the time.
const (
	leastPause = 200 * time.Millisecond
	pauseShare = 20
)

// Checkpoint saves the progress if it is time to.
func (w *Writer) Checkpoint(ctx context.Context) error {
	w.mu.Lock()
	due := !w.saving && time.Since(w.saved) >= max(leastPause, w.pause)
	w.saving = w.saving || due
	w.mu.Unlock()
	if !due {
		return nil
	}
	return w.Save(ctx)
}

// Save writes the manifest of the unfinished dump.
func (w *Writer) Save(ctx context.Context) error {
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
