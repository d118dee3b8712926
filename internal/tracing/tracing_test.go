package tracing

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRedirectingReceiver exports spans to a receiver that redirects to another server: it does not get the credentials in the headers.
func TestRedirectingReceiver(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2")
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server gets %s with %q", r.URL, r.Header)
	}))
	defer other.Close()
	var asked atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("api-key") != "hunter2" {
			t.Errorf("the receiver gets the headers %q", r.Header)
		}
		asked.Add(1)
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer receiver.Close()
	var log bytes.Buffer
	p, err := Open(t.Context(), Options{URL: receiver.URL, Service: "test", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer("test").Start(context.Background(), "a span")
	span.End()
	err = p.Close()
	text := log.String()
	if err != nil {
		text += err.Error()
	}
	if asked.Load() == 0 || !strings.Contains(text, "redirects to another address") || strings.Contains(text, "hunter2") {
		t.Errorf("%d requests: %s", asked.Load(), text)
	}
}
