package frontend

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// TestSpans expects a span of each request and each attempt at a shard, up to the end of its body. The downstream gets the attempt's span as
// its parent, and the client's decision not to sample.
func TestSpans(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(memory))
	var mu sync.Mutex
	var parents []string // under mu
	firsts := 0          // under mu: requests for the first shard
	l := newFleet(t, false, func(o *Options) {
		o.Shards = 2
		o.Spans = NewSpans(provider.Tracer("test"))
	}, func(w http.ResponseWriter, r *http.Request, shard string) {
		mu.Lock()
		parents = append(parents, r.Header.Get("Traceparent"))
		if shard == "1_of_2" {
			firsts++
		}
		fail := shard == "1_of_2" && firsts == 1
		mu.Unlock()
		if fail {
			fails(http.StatusServiceUnavailable, "text/plain", "secret")(w, r, shard)
			return
		}
		says(`{"data":[]}`)(w, r, shard)
	})
	const trace, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	l.get("", "Traceparent", "00-"+trace+"-"+client+"-01")
	spans := memory.GetSpans()
	names := make(map[string]int)
	for _, s := range spans {
		outcome, status, body := "", "", ""
		for _, a := range s.Attributes {
			switch a.Key {
			case "tare.outcome":
				outcome = " " + a.Value.String()
			case "http.response.status_code":
				status = " " + a.Value.String()
			case "tare.bytes_in", "tare.complete":
				body += " " + a.Value.String()
			}
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("%s: %v", s.Name, a)
			}
		}
		if s.Name == "request shard" && (body == "") != (len(s.Events) == 0) {
			t.Errorf("%s: body%s, events %v", s.Name, body, s.Events)
		}
		names[s.Name+outcome+status+body+" "+s.Status.Code.String()]++
		if s.SpanContext.TraceID().String() != trace {
			t.Errorf("%s: trace %s", s.Name, s.SpanContext.TraceID())
		}
		if s.Name == "request shard" {
			if !strings.Contains(strings.Join(parents, " "), s.SpanContext.SpanID().String()) {
				t.Errorf("no downstream got the span %s as its parent, but %v", s.SpanContext.SpanID(), parents)
			}
		} else if s.Parent.SpanID().String() != client {
			t.Errorf("%s: parent %s", s.Name, s.Parent.SpanID())
		}
	}
	if names["http active_series 200 22 Unset"] != 1 || names["request shard failed Error"] != 1 || names["request shard answered 200 11 true Unset"] != 2 || len(spans) != 4 {
		t.Errorf("spans: %v", names)
	}

	memory.Reset()
	parents = nil
	l.get("", "Traceparent", "00-"+trace+"-"+client+"-00")
	if spans := memory.GetSpans(); len(spans) != 0 {
		t.Errorf("spans of a request that is not sampled: %v", spans)
	}
	for _, p := range parents {
		if !strings.HasPrefix(p, "00-"+trace+"-") || !strings.HasSuffix(p, "-00") {
			t.Errorf("a downstream of a request that is not sampled got %s", p)
		}
	}
	if len(parents) < 2 {
		t.Errorf("%d downstream requests", len(parents))
	}
}

// TestSpanOfFailure has the kind of an error in the spans of a request and of a body, and no text.
func TestSpanOfFailure(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	tracer := sdk.NewTracerProvider(sdk.WithSyncer(memory)).Tracer("test")
	s := NewSpans(tracer)
	for _, c := range []struct {
		rec                   record
		late, events, errored bool
	}{
		{rec: record{Status: http.StatusOK}},
		{rec: record{Status: http.StatusOK, FirstByte: time.Second}, events: true},
		{rec: record{Status: http.StatusBadGateway, ErrorText: "secret"}, errored: true},
		{rec: record{Status: http.StatusOK, Late: true, ErrorText: "secret"}, late: true, errored: true},
	} {
		memory.Reset()
		c.rec.Start, c.rec.Total = time.Now(), 3*time.Second
		_, span := s.start(t.Context(), httptest.NewRequest(http.MethodGet, "/", nil), &c.rec)
		s.finish(span, &c.rec)
		got := memory.GetSpans()[0]
		late := false
		for _, a := range got.Attributes {
			late = late || a.Key == "tare.late" && a.Value.AsBool()
		}
		if late != c.late || len(got.Events) > 0 != c.events || (got.Status.Code == codes.Error) != c.errored || strings.Contains(got.Status.Description, "secret") || !got.EndTime.Equal(got.StartTime.Add(c.rec.Total)) {
			t.Errorf("%+v: late %v, events %v, status %v", c.rec, late, got.Events, got.Status)
		}
	}
	for _, c := range []struct {
		body     io.Reader
		read     bool
		complete bool
		errored  bool
	}{
		{strings.NewReader("abc"), true, true, false},
		{strings.NewReader("abc"), false, false, false},
		{io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errors.New("secret"))), true, false, true},
	} {
		memory.Reset()
		_, span := tracer.Start(t.Context(), "body")
		b := &spanBody{ReadCloser: io.NopCloser(c.body), span: span}
		if c.read {
			_, _ = io.Copy(io.Discard, b)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		got := memory.GetSpans()[0]
		complete, bytes := false, int64(-1)
		for _, a := range got.Attributes {
			switch a.Key {
			case "tare.complete":
				complete = a.Value.AsBool()
			case "tare.bytes_in":
				bytes = a.Value.AsInt64()
			}
		}
		if complete != c.complete || (got.Status.Code == codes.Error) != c.errored || bytes != map[bool]int64{true: 3}[c.read] || strings.Contains(got.Status.Description, "secret") {
			t.Errorf("read %v: complete %v, %d bytes, %v", c.read, complete, bytes, got.Status)
		}
	}
}
