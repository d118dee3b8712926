package frontend

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/taredb/tare/internal/spans"
)

// Spans creates OpenTelemetry spans of requests: one of the request, whose parent is the client's span, and one of
// each downstream request, until its body was read or closed. The downstream request names it in its header
// traceparent, so that spans of the downstream are below it. The methods of a nil *Spans do nothing.
type Spans struct{ tracer trace.Tracer }

// NewSpans returns Spans of a tracer.
func NewSpans(t trace.Tracer) *Spans { return &Spans{t} }

// start starts the span of a request.
func (s *Spans) start(ctx context.Context, r *http.Request, rec *record) (context.Context, trace.Span) {
	if s == nil {
		return ctx, nil
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	return s.tracer.Start(ctx, "http "+rec.Endpoint, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(rec.Start))
}

// finish ends the span of a request with the properties of its record, which has no values of labels and no
// text of errors.
func (s *Spans) finish(span trace.Span, rec *record) {
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
		spans.Digest.String(hex.EncodeToString(digest[:])), spans.Tenant.String(rec.Tenant),
		spans.Shards.Int(rec.Shards), spans.Requests.Int64(rec.Asked), spans.Retries.Int64(rec.Retries),
		spans.ItemsIn.Int64(rec.ItemsIn), spans.ItemsOut.Int64(rec.ItemsOut),
		spans.BytesIn.Int64(rec.BytesIn), spans.BytesOut.Int64(rec.BytesOut),
		attribute.Bool("tare.limited", rec.Limited), spans.Status.Int(rec.Status),
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

// request starts the span of a downstream request. The caller calls the returned function with its outcome: it ends
// the span of a failed request; that of another ends when the body of the response is closed.
func (s *Spans) request(ctx context.Context, p *part, u *url.URL) (context.Context, func(o outcome, resp *http.Response)) {
	if s == nil {
		return ctx, func(outcome, *http.Response) {}
	}
	ctx, span := s.tracer.Start(ctx, "request shard", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("tare.shard", p.name), attribute.String("server.address", u.Host), attribute.Bool("tare.retry", p.retried.Load())))
	return ctx, func(o outcome, resp *http.Response) {
		span.SetAttributes(attribute.String("tare.outcome", string(o)))
		if resp != nil && span.IsRecording() {
			span.AddEvent("headers")
			span.SetAttributes(spans.Status.Int(resp.StatusCode))
			resp.Body = &spanBody{ReadCloser: resp.Body, span: span}
			return
		}
		if o != outcomeResponded && o != outcomeCanceled {
			span.SetStatus(codes.Error, string(o))
		}
		span.End()
	}
}

// A spanBody ends the span of a downstream request when its body is closed.
type spanBody struct {
	io.ReadCloser
	span  trace.Span
	bytes int64
	end   error // of the last Read
}

// Read implements io.Reader.
func (b *spanBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	b.end = err
	return n, err //nolint:wrapcheck // a reader's error is passed on
}

// Close implements io.Closer. A body may be closed before its end, for example when the response has reached its limit.
func (b *spanBody) Close() error {
	complete := b.end == io.EOF //nolint:errorlint // as io.Reader says
	b.span.SetAttributes(spans.BytesIn.Int64(b.bytes), attribute.Bool("tare.complete", complete))
	if b.end != nil && !complete {
		b.span.SetStatus(codes.Error, "body") // the error's text may quote values
	}
	b.span.End()
	return b.ReadCloser.Close()
}
