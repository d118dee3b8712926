// Package spans has the attributes of OpenTelemetry spans: one key per measurement, whichever package reads or
// merges, and [Child], a span of a part of a request.
//
//	ctx, span := spans.Child(ctx, "rank statements")
//	defer span.End()
//	…
//	span.SetAttributes(spans.Reads.Int64(n), spans.BytesFetched.Int64(bytes))
//
// It imports OpenTelemetry's API alone. [github.com/taredb/tare/internal/tracing] exports the spans.
package spans
