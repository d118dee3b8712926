package report

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/panics"
)

// A Reporter logs and counts panics. It is safe for concurrent use; a nil Reporter drops them.
type Reporter struct {
	log   *slog.Logger
	total *prometheus.CounterVec
}

var _ prometheus.Collector = (*Reporter)(nil)

// The values of the metric's label.
const (
	serverHTTP = "http"
	serverGRPC = "grpc"
)

// New returns a Reporter, which is also the collector of its metric.
func New(log *slog.Logger) *Reporter {
	r := &Reporter{log: log, total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tare_panics_total", Help: "Requests that failed because of a panic.",
	}, []string{"server"})}
	r.total.WithLabelValues(serverHTTP)
	r.total.WithLabelValues(serverGRPC)
	return r
}

// Describe implements prometheus.Collector.
func (r *Reporter) Describe(ch chan<- *prometheus.Desc) { r.total.Describe(ch) }

// Collect implements prometheus.Collector.
func (r *Reporter) Collect(ch chan<- prometheus.Metric) { r.total.Collect(ch) }

// HTTP reports a panic of an HTTP request. A panic is reported once.
func (r *Reporter) HTTP(e *panics.Error, path string) { r.report(e, serverHTTP, path) }

// GRPC reports a panic of a gRPC request. A panic is reported once.
func (r *Reporter) GRPC(e *panics.Error, method string) { r.report(e, serverGRPC, method) }

func (r *Reporter) report(e *panics.Error, server, what string) {
	if r == nil || !e.ToReport() {
		return
	}
	r.total.WithLabelValues(server).Inc()
	r.log.Error("handler panicked", "server", server, "request", what, "panic", e.Error(), "stack", string(e.Stack))
}

// Handler returns h with panics reported. The request is aborted if part of its response was sent, and fails
// with status 500 otherwise. http.ErrAbortHandler, by which a handler aborts its response, passes through.
func (r *Reporter) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		seen := &seenWriter{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // the value itself, as net/http compares it
				panic(v)
			}
			r.HTTP(panics.Recovered(v), req.URL.Path)
			if seen.sent {
				panic(http.ErrAbortHandler)
			}
			clear(w.Header())
			http.Error(w, "internal error: see the server's log", http.StatusInternalServerError)
		}()
		h.ServeHTTP(seen, req)
	})
}

// A seenWriter records whether a response has started.
type seenWriter struct {
	http.ResponseWriter
	sent bool
}

func (w *seenWriter) WriteHeader(code int) {
	w.sent = true
	w.ResponseWriter.WriteHeader(code)
}

func (w *seenWriter) Write(b []byte) (int, error) {
	w.sent = true
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher, which handlers of streams look for.
func (w *seenWriter) Flush() {
	w.sent = true
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap supports http.ResponseController.
func (w *seenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServerOptions returns the interceptors of a gRPC server: a panic fails its call with code Internal.
func (r *Reporter) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
			defer func() {
				if v := recover(); v != nil {
					resp, err = nil, r.failed(panics.Recovered(v), info.FullMethod)
				}
			}()
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = r.failed(panics.Recovered(v), info.FullMethod)
				}
			}()
			return next(srv, stream)
		}),
	}
}

func (r *Reporter) failed(e *panics.Error, method string) error {
	r.GRPC(e, method)
	return status.Error(codes.Internal, Internal)
}

// Internal is the error that clients receive for a panic.
const Internal = "internal error: see the server's log"
