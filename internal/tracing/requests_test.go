package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// TestHandler has handlers respond, and fail to, with a span and without: clients get the same response, and the span has what it was.
func TestHandler(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	p := &Provider{sdk.NewTracerProvider(sdk.WithSyncer(spans))}
	for _, tt := range []struct {
		name, pattern, method string
		h                     http.HandlerFunc
		want                  string // name, route, method, status, size and error of the span
	}{
		{"nothing", "GET /a", "GET", func(http.ResponseWriter, *http.Request) {}, "GET /a [/a GET 200 0] Unset"},
		{"a text", "GET /a/{id}", "GET", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "abc"); fmt.Fprint(w, "de") }, "GET /a/{id} [/a/{id} GET 200 5] Unset"},
		{"the root", "GET /{$}", "GET", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "abc") }, "GET / [/ GET 200 3] Unset"},
		{"a HEAD", "GET /a", "HEAD", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, "GET /a [/a HEAD 202 0] Unset"},
		{"a status", "POST /a", "POST", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) }, "POST /a [/a POST 404 3] Unset"},
		{"the last status that is no error", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, "GET /a [/a GET 499 0] Unset"},
		{"an error", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "GET /a [/a GET 500 0] Error Internal Server Error"},
		{"another error", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "GET /a [/a GET 502 0] Error Bad Gateway"},
		{"a hint before it", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</x>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		}, "GET /a [/a GET 201 0] Unset"},
		{"the first of two", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusBadGateway)
		}, "GET /a [/a GET 200 0] Unset"},
		{"a text, then an error", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "abc")
			w.WriteHeader(http.StatusBadGateway)
		}, "GET /a [/a GET 200 3] Unset"},
		{"a flush", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}, "GET /a [/a GET 200 0] Unset"},
		{"a panic", "GET /a", "GET", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "GET /a [/a GET 500 0] Error Internal Server Error"},
		{"a panic after a text", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "abc")
			panic(http.ErrAbortHandler)
		}, "GET /a [/a GET 200 3] Error OK"},
		{"a panic after a status", "GET /a", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			panic(http.ErrAbortHandler)
		}, "GET /a [/a GET 202 0] Error Accepted"},
	} {
		spans.Reset()
		if want, got := respond(t, tt.method, tt.h), respond(t, tt.method, p.Handler(tt.pattern, tt.h)); got != want {
			t.Errorf("%s: the response is %q, without a span %q", tt.name, got, want)
		}
		if got := texts(spans); got != tt.want {
			t.Errorf("%s: the span is %s, want %s", tt.name, got, tt.want)
		}
	}
}

// respond returns what a client gets of a handler.
func respond(t *testing.T, method string, h http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(r)
	if err != nil {
		return "an error"
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprint(response.StatusCode, " ", string(body), " ", err)
}

// texts returns the spans.
func texts(e *tracetest.InMemoryExporter) string {
	var all []string
	for _, s := range e.GetSpans() {
		var values []string
		for _, a := range s.Attributes {
			values = append(values, a.Value.String())
		}
		text := fmt.Sprint(s.Name, " ", values, " ", s.Status.Code)
		if s.Status.Description != "" {
			text += " " + s.Status.Description
		}
		if s.SpanKind != trace.SpanKindServer || s.EndTime.Before(s.StartTime) {
			text += fmt.Sprint(" ", s.SpanKind, s.EndTime)
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// TestParent has the client's span as the parent of a request's, which the handler's context has.
func TestParent(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	p := &Provider{sdk.NewTracerProvider(sdk.WithSyncer(spans))}
	var inner trace.SpanContext
	h := p.Handler("GET /a", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { inner = trace.SpanContextFromContext(r.Context()) }))
	r := httptest.NewRequest("GET", "/a", nil)
	r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	h.ServeHTTP(httptest.NewRecorder(), r)
	all := spans.GetSpans()
	if len(all) != 1 || all[0].Parent.SpanID().String() != "b7ad6b7169203331" || inner.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || inner.SpanID() != all[0].SpanContext.SpanID() {
		t.Errorf("%+v, in the handler %v", all, inner)
	}
}

// TestOpenFails opens providers that cannot export, and closes one.
func TestOpenFails(t *testing.T) {
	o := Options{URL: "http://127.0.0.1:1", Log: slog.New(slog.DiscardHandler)}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(gone, o); err == nil || !strings.Contains(err.Error(), "create exporter of spans: ") {
		t.Errorf("without time: %v", err)
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "no value")
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "read OTEL_RESOURCE_ATTRIBUTES: ") {
		t.Errorf("a wrong attribute: %v", err)
	}
	var none *Provider
	_, span := none.Tracer("x").Start(t.Context(), "x")
	if span.IsRecording() || none.Close() != nil {
		t.Error("no provider exports spans")
	}
}

// TestExports exports a span: the receiver gets the names and the version at the path of the protocol.
func TestExports(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=testing")
	for _, suffix := range []string{"", "/"} {
		var paths []string
		var sent []byte
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			paths, sent = append(paths, r.Method+" "+r.URL.Path), append(sent, body...)
		}))
		p, err := Open(t.Context(), Options{URL: receiver.URL + suffix, Service: "a service", Version: "1.2.3", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		_, span := p.Tracer("a scope").Start(t.Context(), "a span")
		span.End()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		receiver.Close()
		if diff := cmp.Diff([]string{"POST /v1/traces"}, paths); diff != "" {
			t.Error(diff)
		}
		for _, want := range []string{"a service", "1.2.3", "a scope", "a span", "deployment.environment", "testing", "telemetry.sdk.language"} {
			if !bytes.Contains(sent, []byte(want)) {
				t.Errorf("no %q in %q", want, sent)
			}
		}
	}
}
