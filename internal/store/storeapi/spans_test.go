package storeapi

import (
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/tracing"
	"github.com/taredb/tare/store/storegateway"
)

// receiveSpans returns the URL of an OTLP receiver, and a channel of its requests.
func receiveSpans(t *testing.T) (receiver string, requests chan *collector.ExportTraceServiceRequest) {
	t.Helper()
	requests = make(chan *collector.ExportTraceServiceRequest, 10)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		m := &collector.ExportTraceServiceRequest{}
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, m) != nil {
			t.Errorf("%s: %d bytes, %v", r.URL.Path, len(body), err)
		}
		requests <- m
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

// attribute returns the value of a span's integer attribute, -1 if it has none.
func attribute(s *tracepb.Span, key string) int64 {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetIntValue()
		}
	}
	return -1
}

// TestSpans sends requests over gRPC and HTTP with traceparent, one of which fails, and one that the client does not
// sample.
func TestSpans(t *testing.T) {
	dir := t.TempDir()
	if _, err := (testblock.Shape{Count: 3, Samples: 5}).Write(dir, testblock.Options{}); err != nil {
		t.Fatal(err)
	}
	receiver, requests := receiveSpans(t)
	provider, err := tracing.Open(t.Context(), tracing.Options{URL: receiver, Service: "tare-store", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	spans := storegateway.NewSpans(provider.Tracer("test"))
	g := teststore.Open(t, dir, nil)
	conn := teststore.Dial(t, New(g, Options{Spans: spans}).NewServer())
	api, err := storegateway.NewHTTPAPI(g, storegateway.HTTPOptions{Spans: spans, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const trace, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	call := func(parent string, r *storepb.SeriesRequest) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent)
		_, _, err := teststore.Receive(storepb.NewStoreClient(conn).Series(ctx, r))
		return err
	}
	if err := call("00-"+trace+"-"+client+"-01", teststore.Everything()); err != nil {
		t.Fatal(err)
	}
	if err := call("00-"+trace+"-"+client+"-00", teststore.Everything()); err != nil {
		t.Fatal(err)
	}
	if call("00-"+trace+"-"+client+"-01", &storepb.SeriesRequest{}) == nil {
		t.Error("a request without matchers succeeded")
	}
	for _, path := range []string{"labels", "query?time=1&query=" + url.QueryEscape(`sum(count_over_time({foo="bar"}[1h]))`)} {
		query := httptest.NewRequest(http.MethodGet, "/api/v1/"+path, http.NoBody)
		query.Header.Set("Traceparent", "00-"+trace+"-"+client+"-01")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, query)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if err := provider.Close(); err != nil {
		t.Fatal(err)
	}
	close(requests)

	var series, failed, labels, queries, reads int
	for m := range requests {
		for _, rs := range m.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					if got := hex.EncodeToString(s.GetTraceId()); got != trace {
						t.Errorf("%s: trace %s", s.GetName(), got)
					}
					isChild := hex.EncodeToString(s.GetParentSpanId()) == client
					switch {
					case s.GetName() == "grpc Series" && isChild && s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR:
						failed++
					case s.GetName() == "grpc Series" && isChild:
						series++
						if attribute(s, "tare.series") != 3 || attribute(s, "tare.blocks") != 1 || attribute(s, "tare.bytes_fetched") <= 0 {
							t.Errorf("attributes of Series: %v", s.GetAttributes())
						}
					case s.GetName() == "http labels" && isChild:
						labels++
					case s.GetName() == "http query" && isChild:
						queries++
						if attribute(s, "tare.samples") != 15 || attribute(s, "tare.samples_peak") <= 0 || attribute(s, "tare.blocks") != 1 {
							t.Errorf("attributes of query: %v", s.GetAttributes())
						}
					case s.GetName() == "read blocks" && len(s.GetEvents()) == 1:
						reads++
					}
				}
			}
		}
	}
	if series != 1 || failed != 1 || labels != 1 || queries != 1 || reads == 0 {
		t.Errorf("%d spans of Series, %d of failed ones, %d of labels, %d of queries, %d of blocks read; want 1 each and some", series, failed, labels, queries, reads)
	}
}
