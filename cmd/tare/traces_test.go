package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/taredb/tare/internal/testblock"
)

// A received is a span with the service that sent it.
type received struct {
	*tracepb.Span
	service string
}

// attribute returns a span's attribute as text, "" if there is none.
func (s received) attribute(key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if text := a.GetValue().GetStringValue(); text != "" {
				return text
			}
			return strconv.FormatInt(a.GetValue().GetIntValue(), 10)
		}
	}
	return ""
}

// A spanReceiver receives spans over OTLP.
type spanReceiver struct {
	*httptest.Server
	mu  sync.Mutex
	all []received // under mu
}

func newSpanReceiver(t *testing.T) *spanReceiver {
	t.Helper()
	s := &spanReceiver{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &m) != nil {
			t.Errorf("%s: %d bytes, %v", r.URL.Path, len(body), err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, of := range m.GetResourceSpans() {
			service := ""
			for _, a := range of.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					service = a.GetValue().GetStringValue()
				}
			}
			for _, scope := range of.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					s.all = append(s.all, received{span, service})
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// of returns the spans of a trace by service and name.
func (s *spanReceiver) of(trace string) map[string][]received {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[string][]received)
	for _, span := range s.all {
		if hex.EncodeToString(span.GetTraceId()) == trace {
			key := span.service + " " + span.GetName()
			found[key] = append(found[key], span)
		}
	}
	return found
}

// TestTraces sends requests with traceparent to a frontend over a gateway, to the gateway's pages and PromQL, and to a
// store's page: each process sends its spans, which are children of the client's, or of the frontend's.
func TestTraces(t *testing.T) {
	receiver := newSpanReceiver(t)
	const client = "b7ad6b7169203331"
	trace := func(n int) string { return fmt.Sprintf("0af7651916cd43dd8448eb211c80%04x", n) }
	t.Run("requests", func(t *testing.T) { // its end ends the processes, which send the last spans
		dir := t.TempDir()
		_, err := testblock.Shape{Count: 3, Samples: 5}.Write(filepath.Join(dir, "blocks"), testblock.Options{})
		must(t, err)
		export := []string{"--traces-otlp", receiver.URL}
		serve := startCommand(t, "listening", append([]string{
			"serve", "--listen", "127.0.0.1:0", "--backend", "mysql://127.0.0.1:1", "--drain-timeout", "1s",
			"--bucket", "file://" + filepath.Join(dir, "history"), "--data-dir", filepath.Join(dir, "serve"),
		}, export...)...)
		store := startCommand(t, "store listens", append([]string{
			"store", "--bucket", "file://" + filepath.Join(dir, "blocks"), "--grpc", "off", "--data-dir", filepath.Join(dir, "store"),
		}, export...)...)
		frontend := startCommand(t, "frontend listens", append([]string{"frontend", "--member", serve.http, "--shards", "2"}, export...)...)
		for n, url := range []string{
			frontend.http + "/api/v1/cardinality/active_series?selector=tare_queries_total",
			serve.http + "/api/v1/query?query=sum(tare_queries_total)",
			serve.http + "/queries",
			serve.http + "/metrics",
			store.http + "/",
		} {
			request := getRequest(t, url)
			request.Header.Set("Traceparent", "00-"+trace(n)+"-"+client+"-01")
			if response, body := do(t, request, ""); response.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s %s", url, response.Status, body)
			}
		}
		request := getRequest(t, serve.http+"/api/v1/statements")
		request.Header.Set("Traceparent", "00-"+trace(6)+"-"+client+"-01")
		if response, body := do(t, request, ""); response.StatusCode != http.StatusOK {
			t.Errorf("statements: %s %s", response.Status, body)
		}
		request = getRequest(t, serve.http+"/api/v1/query?query=secret(")
		request.Header.Set("Traceparent", "00-"+trace(5)+"-"+client+"-01")
		if response, body := do(t, request, ""); response.StatusCode != http.StatusBadRequest {
			t.Errorf("an invalid expression: %s %s", response.Status, body)
		}
	})
	for n, want := range [][]string{
		{"tare-frontend http active_series 1", "tare-frontend request shard 2", "tare-serve http active_series 2", "tare-serve request shard 2"},
		{"tare-serve http query 1", "tare-serve read blocks 1", "tare-serve wait for admission 1"},
		{"tare-serve GET /queries 1", "tare-serve load page 1", "tare-serve rank statements 1", "tare-serve render page 1"},
		nil,
		{"tare-store GET / 1", "tare-store load page 1", "tare-store render page 1"},
		{"tare-serve http query 1", "tare-serve read blocks 1", "tare-serve wait for admission 1"},
		{"tare-serve GET /api/v1/statements 1", "tare-serve rank statements 1"},
	} {
		var got []string
		for name, spans := range receiver.of(trace(n)) {
			got = append(got, fmt.Sprint(name, " ", len(spans)))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("spans of trace %d: %q, want %q", n, got, want)
		}
	}
	if t.Failed() {
		return
	}

	fleet := receiver.of(trace(0))
	top := fleet["tare-frontend http active_series"][0]
	if hex.EncodeToString(top.GetParentSpanId()) != client || top.attribute("tare.shards") != "2" || top.attribute("http.response.status_code") != "200" {
		t.Errorf("the frontend's span: parent %x, %v", top.GetParentSpanId(), top.GetAttributes())
	}
	parents := make(map[string]bool)
	for _, span := range fleet["tare-frontend request shard"] {
		if string(span.GetParentSpanId()) != string(top.GetSpanId()) || span.attribute("tare.outcome") != "answered" || span.attribute("tare.shard") == "" || span.attribute("tare.bytes_in") == "0" {
			t.Errorf("a shard's span: parent %x, %v", span.GetParentSpanId(), span.GetAttributes())
		}
		parents[string(span.GetSpanId())] = true
	}
	for _, span := range fleet["tare-serve http active_series"] {
		if !parents[string(span.GetParentSpanId())] {
			t.Errorf("the gateway's span is not below one of the frontend's: %x", span.GetParentSpanId())
		}
		delete(parents, string(span.GetParentSpanId())) // each has one
	}
	page := receiver.of(trace(2))["tare-serve GET /queries"][0]
	if hex.EncodeToString(page.GetParentSpanId()) != client || page.attribute("http.response.status_code") != "200" || page.attribute("http.route") != "/queries" {
		t.Errorf("the page's span: parent %x, %v", page.GetParentSpanId(), page.GetAttributes())
	}
	for _, key := range []string{"tare.series", "tare.samples", "tare.reads", "tare.bytes_fetched"} {
		for n, name := range map[int]string{1: "http query", 2: "rank statements", 6: "rank statements"} {
			if span := receiver.of(trace(n))["tare-serve "+name][0]; span.attribute(key) == "" {
				t.Errorf("%s: no %s in %v", name, key, span.GetAttributes())
			}
		}
	}
	for _, spans := range receiver.of(trace(5)) {
		for _, span := range spans {
			if span.GetName() == "http query" && span.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || strings.Contains(span.String(), "secret") {
				t.Errorf("a failed query: %v", span)
			}
		}
	}
}
