package frontend

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestObserve counts requests by endpoint and result, those that failed late, and their items and bytes.
func TestObserve(t *testing.T) {
	m := newMetrics()
	for range 2 {
		m.observe(&record{Endpoint: "active_series", Status: http.StatusOK, Retries: 3, ItemsOut: 5, BytesOut: 7, ItemsIn: 11, BytesIn: 13})
	}
	m.observe(&record{Endpoint: "active_series", Status: http.StatusOK, Late: true, ErrorText: "lost"})
	m.observe(&record{Endpoint: "active_series", Status: http.StatusBadGateway, ErrorText: "lost"})
	m.asked(outcomeOf(http.StatusBadRequest))
	m.asked(outcomeOf(499))
	m.asked(outcomeOf(http.StatusInternalServerError))
	m.asked(outcomeOf(http.StatusFound))
	m.asked(outcomeResponded)
	of := func(v *prometheus.CounterVec, labels ...string) float64 {
		return testutil.ToFloat64(v.WithLabelValues(labels...))
	}
	for name, c := range map[string][2]float64{
		"late": {testutil.ToFloat64(m.late), 1}, "retries": {testutil.ToFloat64(m.retries), 6},
		"ok": {of(m.requests, "active_series", "200"), 3}, "failed": {of(m.requests, "active_series", "502"), 1},
		"items in": {of(m.items, "in"), 22}, "items out": {of(m.items, "out"), 10}, "bytes in": {of(m.bytes, "in"), 26}, "bytes out": {of(m.bytes, "out"), 14},
		"refused": {of(m.downstream, string(outcomeRefused)), 2}, "failed downstream": {of(m.downstream, string(outcomeFailed)), 2}, "responded": {of(m.downstream, string(outcomeResponded)), 1},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %v, want %v", name, c[0], c[1])
		}
	}
	if n := testutil.CollectAndCount(m.seconds); n != 1 {
		t.Errorf("%d distributions of times", n)
	}
}

// TestLocalRequests refuses requests for a shard that are malformed.
func TestLocalRequests(t *testing.T) {
	for name, c := range map[string]struct {
		target, body string
		status       int // 0: an error
	}{
		"right":            {"/api/v1/cardinality/active_series?selector=up", "", http.StatusOK},
		"another endpoint": {"/api/v1/cardinality/active_native_histogram_metrics?selector=up", "", http.StatusNotImplemented},
		"a selector":       {"/api/v1/cardinality/active_series?selector=up%7B", "", 0},
		"a form":           {"/api/v1/cardinality/active_series", "selector=%zz", 0},
		"a shard":          {"/api/v1/cardinality/active_series?selector=%7B__query_shard__%3D%22x%22%7D", "", http.StatusBadRequest},
	} {
		method := http.MethodGet
		if c.body != "" {
			method = http.MethodPost
		}
		r := httptest.NewRequest(method, c.target, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := localTransport{localList{}}.RoundTrip(r)
		if c.status == 0 {
			if err == nil || response != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || response.StatusCode != c.status {
			t.Errorf("%s: %v (%v)", name, response, err)
			continue
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
