package storegateway

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/taredb/tare/internal/spans"
)

// Spans creates OpenTelemetry spans of finished requests from their log entries and explanations: one of the
// request, whose parent is the client's span, one of the wait for admission, and one of the rest, with an event for
// each block that was read.
type Spans struct{ tracer trace.Tracer }

// NewSpans returns Spans of a tracer.
func NewSpans(t trace.Tracer) *Spans { return &Spans{t} }

// Parent returns a context with the client's span, from the headers traceparent and tracestate. It returns nil for
// nil Spans.
func (s *Spans) Parent(parent, state string) context.Context {
	if s == nil {
		return nil
	}
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent, "tracestate": state})
}

// Record creates the spans of a request. parent is a result of Parent.
func (s *Spans) Record(parent context.Context, protocol string, e *LogEntry, blocks []BlockStats) {
	if s == nil {
		return
	}
	ctx, span := s.tracer.Start(parent, protocol+" "+e.Endpoint, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(e.Start))
	end := e.Start.Add(e.Total)
	defer span.End(trace.WithTimestamp(end))
	if !span.IsRecording() {
		return
	}
	total := e.Stats.Total()
	span.SetAttributes(
		spans.Digest.String(hex.EncodeToString(e.digest[:])), spans.Tenant.String(e.Tenant),
		spans.Code.String(e.Code), spans.Series.Int64(int64(e.Series)),
		spans.Chunks.Int64(int64(e.Chunks)), spans.BytesOut.Int64(int64(e.BytesOut)),
		spans.Samples.Int64(e.Samples), spans.SamplesPeak.Int64(e.SamplesPeak),
		spans.Blocks.Int(e.Stats.Blocks), spans.Batches.Int(e.Stats.Batches),
		spans.BytesPlanned.Int64(e.Stats.PlannedBytes), spans.BytesPeak.Int64(e.Stats.PeakBytes),
		spans.BytesAllowed.Int64(e.Stats.AllowedBytes), spans.BytesCached.Int64(total.Cached),
		spans.BytesDisk.Int64(total.Disk), spans.BytesMemcached.Int64(total.Shared),
		spans.BytesFetched.Int64(total.Fetched), spans.Reads.Int64(total.Reads),
	)
	if e.Failed {
		span.SetStatus(codes.Error, e.Code) // the text of the error may quote values
	}
	admitted := e.Start.Add(e.Wait)
	_, wait := s.tracer.Start(ctx, "wait for admission", trace.WithTimestamp(e.Start))
	wait.End(trace.WithTimestamp(admitted))
	_, read := s.tracer.Start(ctx, "read blocks", trace.WithTimestamp(admitted))
	for i := range blocks {
		b := &blocks[i]
		cost := b.Read.Total()
		read.AddEvent("block", trace.WithTimestamp(end), trace.WithAttributes(
			attribute.String("tare.block", b.ID.String()), attribute.Int64("tare.min_time", b.MinTime), attribute.Int64("tare.max_time", b.MaxTime),
			attribute.Int64("tare.resolution", int64(b.Resolution)), spans.Batches.Int(b.Batches),
			spans.BytesPlanned.Int64(b.PlannedBytes), spans.BytesCached.Int64(cost.Cached),
			spans.BytesDisk.Int64(cost.Disk), spans.BytesMemcached.Int64(cost.Shared),
			spans.BytesFetched.Int64(cost.Fetched), spans.Reads.Int64(cost.Reads),
			attribute.Int64("tare.postings", b.Read.Refs), attribute.Int64("tare.other_shard", b.Read.Foreign),
			attribute.Int64("tare.outside_range", b.Read.Outside), attribute.Int64("tare.other_group", b.Read.Dropped),
		))
	}
	read.End(trace.WithTimestamp(end))
}
