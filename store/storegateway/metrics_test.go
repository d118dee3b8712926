package storegateway_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

// gathered returns the value of each series as name{label="value",…}; of histograms, the counts.
func gathered(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var ls []string
			for _, l := range m.GetLabel() {
				ls = append(ls, l.GetName()+"="+l.GetValue())
			}
			values[f.GetName()+"{"+strings.Join(ls, ",")+"}"] = valueOf(m)
		}
	}
	return values
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	}
	return float64(m.GetHistogram().GetSampleCount())
}

// TestBudgetMetrics runs requests of both protocols that succeed, fail and are refused, and a query while
// another waits, and finds each in the metrics.
func TestBudgetMetrics(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, nil)
	registry := prometheus.NewRegistry()
	g := teststore.Open(t, dir, func(o *storegateway.Options) {
		o.Gate = slab.NewGate(slab.GateOptions{Bytes: 40 << 20, PerQuery: 32 << 20, Light: 8 << 20})
		o.Registerer = registry
		o.Limits.Series = 3
	})
	base := newHTTPServer(t, g, nil)
	client := storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{}).NewServer()))
	selector := url.QueryEscape(`{job=~".+"}`)

	getJSON(t, base+"/api/v1/labels", "")
	getJSON(t, base+"/api/v1/query?query=(", "")
	getJSON(t, base+"/api/v1/query?time=1700003000&query="+selector, "") // more than three series
	if _, err := client.LabelNames(t.Context(), &storepb.LabelNamesRequest{End: 1 << 60}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := teststore.Receive(client.Series(t.Context(), teststore.Everything())); err == nil {
		t.Error("more series than --max-series were streamed")
	}
	teststore.WaitForIdle(t, g)

	first, err := g.Admit(t.Context(), storegateway.Admission{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Quota().Reserve(slab.ResponseBytes, 5<<20); err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		r, err := http.Get(base + "/api/v1/query?time=1700003000&query=" + url.QueryEscape(`{job="none"}`))
		if err != nil {
			t.Error(err)
			done <- 0
			return
		}
		r.Body.Close()
		done <- r.StatusCode
	}()
	testwait.Until(t, "a query to wait", func() bool { return g.Gate().Stats().Waiting == 1 })
	during := gathered(t, registry)
	first.Quota().Return(slab.ResponseBytes, 5<<20)
	first.Close()
	if code := testwait.Receive(t, "the query that waited", done); code != http.StatusOK {
		t.Errorf("the query that waited: %d", code)
	}
	teststore.WaitForIdle(t, g)
	after := gathered(t, registry)

	for _, c := range []struct {
		in   map[string]float64
		name string
		want float64
	}{
		{during, "tare_store_queries_running{}", 1},
		{during, "tare_store_queries_waiting{lane=main}", 1},
		{during, "tare_store_queries_waiting{lane=light}", 0},
		{during, "tare_store_reserved_bytes{}", 5 << 20},
		{during, "tare_store_budget_bytes{budget=query}", 32 << 20},
		{during, "tare_store_budget_bytes{budget=queries}", 40 << 20},
		{during, "tare_store_budget_bytes{budget=light-queries}", 8 << 20},
		{after, "tare_store_reserved_bytes{}", 0},
		{after, "tare_store_queries_running{}", 0},
		{after, "tare_store_queries_waiting{lane=main}", 0},
		{after, "tare_store_requests_total{code=OK,endpoint=labels,protocol=http}", 1},
		{after, "tare_store_requests_total{code=OK,endpoint=query,protocol=http}", 1},
		{after, "tare_store_requests_total{code=bad_data,endpoint=query,protocol=http}", 1},
		{after, "tare_store_requests_total{code=execution,endpoint=query,protocol=http}", 1},
		{after, "tare_store_requests_total{code=OK,endpoint=LabelNames,protocol=grpc}", 1},
		{after, "tare_store_requests_total{code=ResourceExhausted,endpoint=Series,protocol=grpc}", 1},
		{after, "tare_store_request_duration_seconds{endpoint=query,protocol=http}", 3},
		{after, "tare_store_requests_refused_total{reason=max-series}", 2},
		{after, "tare_store_requests_refused_total{reason=query-bytes}", 0},
	} {
		if got, ok := c.in[c.name]; !ok || got != c.want {
			t.Errorf("%s is %v (there: %t), want %v", c.name, got, ok, c.want)
		}
	}
	for _, name := range []string{
		"tare_store_bucket_reads_total{}", "tare_store_bucket_read_bytes_total{}", "tare_store_index_cache_bytes{}",
		"tare_store_index_cache_requests_total{result=miss}", "tare_store_read_bytes_total{kind=chunks,origin=fetched}",
		"tare_store_slab_lends_total{pool=series}", "tare_store_response_bytes_total{protocol=http}", "tare_store_reserved_peak_bytes{}",
	} {
		if after[name] <= 0 {
			t.Errorf("%s is %v, want more than 0", name, after[name])
		}
	}
	if n := after["tare_store_bucket_read_failures_total{}"]; n != 0 {
		t.Errorf("%v reads failed", n)
	}
}
