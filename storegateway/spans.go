package storegateway

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
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
		attribute.String("tare.digest", hex.EncodeToString(e.digest[:])), attribute.String("tare.tenant", e.Tenant),
		attribute.String("tare.code", e.Code), attribute.Int64("tare.series", int64(e.Series)),
		attribute.Int64("tare.chunks", int64(e.Chunks)), attribute.Int64("tare.bytes_out", int64(e.BytesOut)),
		attribute.Int("tare.blocks", e.Stats.Blocks), attribute.Int("tare.batches", e.Stats.Batches),
		attribute.Int64("tare.bytes_planned", e.Stats.PlannedBytes), attribute.Int64("tare.bytes_peak", e.Stats.PeakBytes),
		attribute.Int64("tare.bytes_allowed", e.Stats.AllowedBytes), attribute.Int64("tare.bytes_cached", total.Cached),
		attribute.Int64("tare.bytes_disk", total.Disk), attribute.Int64("tare.bytes_memcached", total.Shared),
		attribute.Int64("tare.bytes_fetched", total.Fetched), attribute.Int64("tare.reads", total.Reads),
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
			attribute.Int64("tare.resolution", int64(b.Resolution)), attribute.Int("tare.batches", b.Batches),
			attribute.Int64("tare.bytes_planned", b.PlannedBytes), attribute.Int64("tare.bytes_cached", cost.Cached),
			attribute.Int64("tare.bytes_fetched", cost.Fetched), attribute.Int64("tare.reads", cost.Reads),
		))
	}
	read.End(trace.WithTimestamp(end))
}
