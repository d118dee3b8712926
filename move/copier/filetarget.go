package copier

import (
	"context"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/rowstream"
)

// A fileTarget is the files of a dump. Checkpoints save its progress.
type fileTarget struct {
	*rowsPhase
	chunks *dump.Chunks
}

func newFileTarget(p *rowsPhase, view rowstream.ViewReader) *fileTarget {
	return &fileTarget{rowsPhase: p, chunks: p.files.NewChunks(view)}
}

func (w *fileTarget) close() {}

// cut implements rowTarget.
func (w *fileTarget) cut(_ context.Context, number int, c rowstream.Chunk) error {
	w.files.Cut(number, c)
	if c.Number == 0 {
		w.begin(number, c.Upto)
	}
	return nil
}

// copy implements rowTarget. It calls read once at most.
func (w *fileTarget) copy(ctx context.Context, number int, c rowstream.Chunk, read rowRead) error {
	written, err := w.chunks.Write(ctx, number, c, func(write func(*rowstream.Batch) error) error {
		return read(write, func() error { return nil })
	})
	if err != nil {
		return err
	}
	e := telemetry.Event{Kind: telemetry.EventChunk, Table: w.tables[number].Spec.Source(), Chunk: c.Number, Rows: written.Rows, Bytes: written.Bytes}
	if written.Before {
		e.Kind, e.Progress = telemetry.EventVerified, w.addBefore(number, c, written.Rows)
	} else {
		e.Progress = w.add(number, c, written.Rows, written.Bytes)
	}
	w.o.Observe(e)
	return w.files.Checkpoint(ctx)
}

// finish implements rowTarget. Files have no indexes.
func (w *fileTarget) finish(_ context.Context, number int) error {
	if err := w.files.Complete(number); err != nil {
		return err
	}
	w.o.Observe(telemetry.Event{Kind: telemetry.EventDone, Table: w.tables[number].Spec.Source(), Rows: w.copied(number)})
	return nil
}
