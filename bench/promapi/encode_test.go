package promapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/stats"
	"github.com/prometheus/prometheus/util/teststorage"
)

// fixed is an engine that returns the same result for every query, so that only the encoding is measured.
type fixed struct{ value parser.Value }

func (e fixed) NewInstantQuery(context.Context, storage.Queryable, promql.QueryOpts, string, time.Time) (promql.Query, error) {
	return fixedQuery(e), nil
}

func (e fixed) NewRangeQuery(context.Context, storage.Queryable, promql.QueryOpts, string, time.Time, time.Time, time.Duration) (promql.Query, error) {
	return fixedQuery(e), nil
}

type fixedQuery struct{ value parser.Value }

func (q fixedQuery) Exec(context.Context) *promql.Result { return &promql.Result{Value: q.value} }
func (fixedQuery) Stats() *stats.Statistics {
	return &stats.Statistics{Timers: stats.NewQueryTimers(), Samples: stats.NewQuerySamples(false)}
}
func (fixedQuery) Statement() parser.Statement { return nil }
func (fixedQuery) String() string              { return "fixed" }
func (fixedQuery) Cancel()                     {}
func (fixedQuery) Close()                      {}

// counting is a client that reads as fast as possible.
type counting struct {
	header http.Header
	n      int64
}

func (c *counting) Header() http.Header         { return c.header }
func (*counting) WriteHeader(int)               {}
func (c *counting) Write(b []byte) (int, error) { c.n += int64(len(b)); return len(b), nil }

// BenchmarkResponse encodes a range query's result of 1,000 series × 1,000 steps: counters, changing gauges,
// constant gauges.
func BenchmarkResponse(b *testing.B) {
	for _, kind := range []struct {
		name string
		f    func(i, k int) float64
	}{
		{"counters", func(i, k int) float64 { return float64(i*1000 + k*7) }},
		{"gauges", func(i, k int) float64 { return math.Sin(float64(i + k)) }},
		{"constants", func(i, _ int) float64 { return float64(i) / 3 }},
	} {
		m := make(promql.Matrix, 1000)
		for i := range m {
			m[i].Metric = labels.FromStrings("__name__", "http_requests_total", "instance", fmt.Sprintf("host-%d:9090", i), "job", "api")
			for k := range 1000 {
				m[i].Floats = append(m[i].Floats, promql.FPoint{T: int64(k) * 60_000, F: kind.f(i, k)})
			}
		}
		s := faulty{teststorage.New(b)}
		for _, api := range []struct {
			name    string
			handler http.Handler
		}{
			{"prometheus", prometheusAPI(b, s, fixed{m}, newParser())},
			{"ours", ownAPI(b, s, fixed{m})},
		} {
			b.Run("values="+kind.name+"/api="+api.name, func(b *testing.B) {
				r := newRequest(http.MethodGet, "/api/v1/query_range", map[string][]string{"query": {"x"}, "start": {"0"}, "end": {"59940"}, "step": {"60"}})
				w := &counting{header: http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					w.n = 0
					clear(w.header)
					api.handler.ServeHTTP(w, r)
				}
				b.SetBytes(w.n)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/sample")
			})
		}
	}
}
