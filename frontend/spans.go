package frontend

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Spans creates OpenTelemetry spans of requests: one of the request, whose parent is the client's span, and one of
// each downstream request until its headers have arrived. The downstream request names it in its header
// traceparent, so that spans of the downstream are below it. The methods of a nil *Spans do nothing.
type Spans struct{ tracer trace.Tracer }

// NewSpans returns Spans of a tracer.
func NewSpans(t trace.Tracer) *Spans { return &Spans{t} }

// start starts the span of a request.
func (s *Spans) start(ctx context.Context, r *http.Request, rec *Record) (context.Context, trace.Span) {
	if s == nil {
		return ctx, nil
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	return s.tracer.Start(ctx, "http "+rec.Endpoint, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(rec.Start))
}

// finish ends the span of a request with the properties of its record, which has no values of labels and no
// text of errors.
func (s *Spans) finish(span trace.Span, rec *Record) {
	if s == nil {
		return
	}
	end := rec.Start.Add(rec.Total)
	defer span.End(trace.WithTimestamp(end))
	if !span.IsRecording() {
		return
	}
	digest := digestOf(rec.Endpoint, rec.Masked)
	span.SetAttributes(
		attribute.String("tare.digest", hex.EncodeToString(digest[:])), attribute.String("tare.tenant", rec.Tenant),
		attribute.Int("tare.shards", rec.Shards), attribute.Int64("tare.requests", rec.Asked), attribute.Int64("tare.retries", rec.Retries),
		attribute.Int64("tare.items_in", rec.ItemsIn), attribute.Int64("tare.items_out", rec.ItemsOut),
		attribute.Int64("tare.bytes_in", rec.BytesIn), attribute.Int64("tare.bytes_out", rec.BytesOut),
		attribute.Bool("tare.limited", rec.Limited), attribute.Int("http.response.status_code", rec.Status),
	)
	if rec.FirstByte > 0 {
		span.AddEvent("headers of all shards", trace.WithTimestamp(rec.Start.Add(rec.FirstByte)))
	}
	if rec.ErrorText != "" {
		span.SetStatus(codes.Error, http.StatusText(rec.Status)) // the error's text may quote values
		span.SetAttributes(attribute.Bool("tare.late", rec.Late))
	}
}

// inject sets the headers traceparent and tracestate of a downstream request to its span.
func (s *Spans) inject(ctx context.Context, h http.Header) {
	if s != nil {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

// request starts the span of a downstream request. The returned function ends it with the outcome of the request.
func (s *Spans) request(ctx context.Context, p *part, u *url.URL) (context.Context, func(o outcome)) {
	if s == nil {
		return ctx, func(outcome) {}
	}
	ctx, span := s.tracer.Start(ctx, "request shard", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("tare.shard", p.name), attribute.String("server.address", u.Host), attribute.Bool("tare.retry", p.retried.Load())))
	return ctx, func(o outcome) {
		span.SetAttributes(attribute.String("tare.outcome", string(o)))
		if o != outcomeResponded && o != outcomeCanceled {
			span.SetStatus(codes.Error, string(o))
		}
		span.End()
	}
}
