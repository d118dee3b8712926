package tracing

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the tracer of Handler.
const scope = "github.com/taredb/tare/internal/tracing"

// Handler returns a handler with a span for each request to h. Its name is the pattern of http.ServeMux, with a
// method, so it has no value of the path; its parent is the client's span. The request's context has the span.
func (p *Provider) Handler(pattern string, h http.Handler) http.Handler {
	method, route, _ := strings.Cut(pattern, " ")
	route = strings.TrimSuffix(route, "{$}")
	start := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.route", route)),
	}
	tracer := p.Tracer(scope)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parent := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(parent, method+" "+route, start...)
		defer span.End()
		counted := &countingWriter{ResponseWriter: w}
		finished := false
		defer func() {
			code := counted.code
			switch {
			case !finished && code == 0:
				code = http.StatusInternalServerError // a panic, for which the server responds
			case code == 0:
				code = http.StatusOK
			}
			span.SetAttributes(attribute.String("http.request.method", r.Method), // HEAD for a pattern of GET
				attribute.Int("http.response.status_code", code), attribute.Int64("http.response.body.size", counted.bytes))
			if !finished || code >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, http.StatusText(code))
			}
		}()
		h.ServeHTTP(counted, r.WithContext(ctx))
		finished = true
	})
}

// A countingWriter records the status and the length of a response.
type countingWriter struct {
	http.ResponseWriter
	code  int // 0: none was sent
	bytes int64
}

// WriteHeader implements http.ResponseWriter.
func (w *countingWriter) WriteHeader(code int) {
	if w.code == 0 && code >= http.StatusOK {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err //nolint:wrapcheck // a writer's error is passed on
}

// Unwrap returns the writer for http.ResponseController.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
