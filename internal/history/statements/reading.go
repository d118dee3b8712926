package statements

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/spans"
)

// A reading is the span of one description of statements, and the counts of its attributes. Without a sampled span in
// the context there is none: the methods of a nil reading do nothing.
type reading struct {
	span    trace.Span
	samples stmtseries.Counts

	files, remote, rows, reads, bytes atomic.Int64 // of rollups
}

type readingKey struct{}

// startReading starts a span below that of ctx. The returned context counts its reads.
func startReading(ctx context.Context, name string) (context.Context, *reading) {
	ctx, span := spans.Child(ctx, name)
	if !span.IsRecording() {
		return ctx, nil
	}
	r := &reading{span: span}
	return context.WithValue(ctx, readingKey{}, r), r
}

// readingOf returns the reading of ctx, nil if there is none.
func readingOf(ctx context.Context) *reading {
	r, _ := ctx.Value(readingKey{}).(*reading)
	return r
}

// counts returns the counts of samples, nil without a reading.
func (r *reading) counts() *stmtseries.Counts {
	if r == nil {
		return nil
	}
	return &r.samples
}

// add adds the reads of a file of a plan, unless the file is in memory.
func (r *reading) add(file *planned, f *rollup.File) {
	if r == nil || file.memory {
		return
	}
	reads, bytes := f.Reads()
	r.files.Add(1)
	r.rows.Add(int64(f.NumRows))
	r.reads.Add(reads)
	r.bytes.Add(bytes)
	if f.Remote {
		r.remote.Add(1)
	}
	r.span.AddEvent("rollup", trace.WithAttributes(
		attribute.String("tare.file", file.name), attribute.Bool("tare.remote", f.Remote), spans.Rows.Int(f.NumRows),
		spans.Reads.Int64(reads), spans.BytesFetched.Int64(bytes),
	))
}

// set sets attributes of the result.
func (r *reading) set(attributes ...attribute.KeyValue) {
	if r != nil {
		r.span.SetAttributes(attributes...)
	}
}

// finish ends the span. The text of an error may quote values, so the span has only its kind.
func (r *reading) finish(err error) {
	if r == nil {
		return
	}
	defer r.span.End()
	r.span.SetAttributes(
		spans.Series.Int64(r.samples.Series.Load()), spans.Samples.Int64(r.samples.Samples.Load()),
		spans.Files.Int64(r.files.Load()), spans.Remote.Int64(r.remote.Load()), spans.Rows.Int64(r.rows.Load()),
		spans.Reads.Int64(r.reads.Load()), spans.BytesFetched.Int64(r.bytes.Load()),
	)
	switch {
	case err == nil || errors.Is(err, ErrNoStatement):
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		r.span.SetStatus(codes.Error, "canceled")
	default:
		r.span.SetStatus(codes.Error, "failed")
	}
}
