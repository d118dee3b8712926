package storegateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/promapi"
)

// TestObservations logs and counts requests with each field of an observation.
func TestObservations(t *testing.T) {
	var out bytes.Buffer
	log, err := querylog.New(querylog.Options{RingBytes: -1, Sinks: []querylog.SinkOptions{{Writer: &out, Name: "test"}}})
	if err != nil {
		t.Fatal(err)
	}
	h := &httpHooks{requests: newRequests(), options: HTTPOptions{Queries: log}}
	h.entries.New = func() any { return new(LogEntry) }
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	full := promapi.Observation{
		Endpoint: "query_range", Query: `up{a="b"}`, Start: at, End: at.Add(time.Hour), Series: 3, Bytes: 100, Read: 5, Peak: 6, Duration: 2 * time.Second, Queued: time.Second,
	}
	fields := func(change map[string]any) map[string]any {
		all := map[string]any{
			"endpoint": "query_range", "tenant": "ann", "client": "10.0.0.7:99", "min_time": float64(at.UnixMilli()), "max_time": float64(at.Add(time.Hour).UnixMilli()),
			"matchers": `up{a="b"}`, "series": 3.0, "bytes_out": 100.0, "total_ns": 2e9, "wait_ns": 1e9, "code": "OK", "error_text": nil,
		}
		maps.Copy(all, change)
		return all
	}
	cases := []struct {
		name   string
		change func(o *promapi.Observation, r *http.Request)
		want   map[string]any
	}{
		{"all", func(*promapi.Observation, *http.Request) {}, nil},
		{"no range", func(o *promapi.Observation, _ *http.Request) { o.Start, o.End = time.Time{}, time.Time{} }, map[string]any{"min_time": nil, "max_time": nil}},
		{"from a start", func(o *promapi.Observation, _ *http.Request) { o.End = time.Time{} }, map[string]any{"max_time": float64(time.Time{}.UnixMilli())}},
		{"to an end", func(o *promapi.Observation, _ *http.Request) { o.Start = time.Time{} }, map[string]any{"min_time": float64(time.Time{}.UnixMilli())}},
		{"selectors", func(o *promapi.Observation, _ *http.Request) { o.Query, o.Matchers = "", []string{"a", `{b="c"}`} }, map[string]any{"matchers": `a {b="c"}`}},
		{"failed", func(o *promapi.Observation, _ *http.Request) {
			o.Err = &promapi.Error{Type: promapi.Timeout, Err: &slab.LimitError{Short: true}}
		}, map[string]any{"code": "timeout", "error_text": (&slab.LimitError{Short: true}).Error()}},
		{"a client that has disconnected", func(o *promapi.Observation, _ *http.Request) { o.Lost = errors.New("it is away") }, map[string]any{"code": "canceled", "error_text": "it is away"}},
		{"unknown sizes", func(o *promapi.Observation, _ *http.Request) { o.Series, o.Bytes = -1, -1 }, map[string]any{"series": 0.0, "bytes_out": 0.0}},
		{"an address in IPv6", func(_ *promapi.Observation, r *http.Request) { r.RemoteAddr = "[::ffff:10.0.0.7]:99" }, nil},
		{"no address", func(_ *promapi.Observation, r *http.Request) { r.RemoteAddr = "@" }, map[string]any{"client": nil}},
		{"no tenant", func(_ *promapi.Observation, r *http.Request) { r.Header = nil }, map[string]any{"tenant": nil}},
	}
	began := time.Now()
	for _, c := range cases {
		o, r := full, httptest.NewRequest(http.MethodGet, "/api/v1/query_range", nil)
		r.Header.Set(tenantHeader, "ann")
		r.RemoteAddr = "10.0.0.7:99"
		c.change(&o, r)
		h.observe(t.Context(), r, &o)
	}
	ended := time.Now()
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lines []map[string]any
	for text := range strings.Lines(out.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) != len(cases) {
		t.Fatalf("%d lines of %d requests", len(lines), len(cases))
	}
	slices.SortFunc(lines, func(a, b map[string]any) int { return cmp.Compare(a["seq"].(float64), b["seq"].(float64)) }) // those of several clients
	for i, c := range cases {
		line := lines[i]
		want, got := fields(c.want), make(map[string]any)
		for name := range want {
			got[name] = line[name]
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		start, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["start"]))
		if end := start.Add(2 * time.Second); err != nil || end.Before(began.Add(-time.Microsecond)) || end.After(ended) {
			t.Errorf("%s: start %v, %v", c.name, line["start"], err)
		}
	}
	n := len(cases)
	for code, want := range map[string]int{"OK": n - 2, "timeout": 1, "canceled": 1} {
		if got := testutil.ToFloat64(h.requests.requests.WithLabelValues(protocolHTTP, "query_range", code)); got != float64(want) {
			t.Errorf("%v requests with the code %s, want %d", got, code, want)
		}
	}
	if got := testutil.ToFloat64(h.requests.bytes.WithLabelValues(protocolHTTP)); got != float64(100*(n-1)) {
		t.Errorf("%v bytes", got)
	}
	if got := testutil.ToFloat64(h.requests.refused.WithLabelValues(refusedProcessBytes)); got != 1 {
		t.Errorf("%v requests exceed the process's bytes", got)
	}
}

// TestDemand returns the demand of each endpoint: that of a part of a query, with the engine's samples or without, or a light one.
func TestDemand(t *testing.T) {
	h := &httpHooks{options: HTTPOptions{MaxSamples: 1000}}
	samples := fmt.Sprint(PartQuery, slab.Samples, promapi.MaxSamples(1000, 0)*sampleBytes)
	for path, want := range map[string]string{
		"/api/v1/read": fmt.Sprint(PartQuery, slab.ResponseBytes, 0), "/api/v1/query": samples, "/api/v1/query_range": samples,
		"/api/v1/series": fmt.Sprint(LightQuery, slab.ResponseBytes, 0), "/api/v1/labels": fmt.Sprint(LightQuery, slab.ResponseBytes, 0), "/api/v1/label/read/values": fmt.Sprint(LightQuery, slab.ResponseBytes, 0),
	} {
		demand, purpose, bytes := h.demandOf(t.Context(), httptest.NewRequest(http.MethodGet, path, nil))
		if got := fmt.Sprint(demand, purpose, bytes); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for addr, want := range map[string]string{"10.0.0.7:99": "10.0.0.7", "[::ffff:10.0.0.7]:99": "10.0.0.7", "[::1]:99": "::1", "@": "@", "": ""} {
		if got := clientOf(&http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%q: %q, want %q", addr, got, want)
		}
	}
	if err := h.reserve(context.Background(), 1); err != nil { // not admitted
		t.Error(err)
	}
}

// TestSampleBounds bounds the samples of a query by half of its bytes, and names the option that raises the bound.
func TestSampleBounds(t *testing.T) {
	const fit = 1000
	for _, c := range []struct {
		samples, bytes int
		option, byName string
		want           int
		advice         string
	}{
		{0, fit * 2 * sampleBytes, "--max-samples", "--query-bytes", fit, "this is as many as fit into half of --query-bytes, 32000 bytes: … or raise --query-bytes"},
		{fit - 1, fit * 2 * sampleBytes, "--max-samples", "--query-bytes", fit - 1, "this is the limit of --max-samples: … or raise --max-samples"},
		{fit, fit * 2 * sampleBytes, "--max-samples", "--query-bytes", fit, "this is the limit of --max-samples: … or raise --max-samples"},
		{fit + 1, fit * 2 * sampleBytes, "--max-samples", "--query-bytes", fit, "this is as many as fit into half of --query-bytes, 32000 bytes: … or raise --query-bytes"},
		{0, 1, "", "", 1, ""},
		{5, fit * 2 * sampleBytes, "", "--query-bytes", 5, ""},
	} {
		o := HTTPOptions{MaxSamples: c.samples, SamplesOption: c.option, BytesOption: c.byName}
		advice := o.boundSamples(int64(c.bytes))
		before, after, _ := strings.Cut(c.advice, "…")
		if o.MaxSamples != c.want || !strings.HasPrefix(advice, before) || !strings.HasSuffix(advice, after) || (advice == "") != (c.advice == "") {
			t.Errorf("%+v: %d, %q", c, o.MaxSamples, advice)
		}
	}
}
