package frontend

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// An outcome is the result of a downstream request.
type outcome string

const (
	outcomeResponded outcome = "answered"
	outcomeRefused   outcome = "refused" // by a status below 500
	outcomeFailed    outcome = "failed"
	outcomeCanceled  outcome = "canceled" // another request for the same shard was faster
)

func outcomeOf(code int) outcome {
	if code >= http.StatusBadRequest && code < http.StatusInternalServerError {
		return outcomeRefused
	}
	return outcomeFailed
}

// metrics are the metrics of a Frontend.
type metrics struct {
	requests    *prometheus.CounterVec // by endpoint and code
	seconds     *prometheus.HistogramVec
	running     prometheus.Gauge
	late        prometheus.Counter
	downstream  *prometheus.CounterVec // by outcome
	retries     prometheus.Counter
	hedges      prometheus.Counter
	hedgesWon   prometheus.Counter
	items       *prometheus.CounterVec // by direction
	bytes       *prometheus.CounterVec
	compared    prometheus.Counter
	differences prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "tare", Subsystem: "frontend", Name: name, Help: help}
	}
	return &metrics{
		requests: prometheus.NewCounterVec(counter("requests_total", "Requests by status; 499: the client disconnected."), []string{"endpoint", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "tare", Subsystem: "frontend", Name: "request_seconds", Help: "From a request's arrival to the end of its response.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"endpoint"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "tare", Subsystem: "frontend", Name: "running_requests", Help: "Client requests in progress.",
		}),
		late:        prometheus.NewCounter(counter("late_errors_total", "Responses that failed after their status was sent.")),
		downstream:  prometheus.NewCounterVec(counter("downstream_requests_total", "Shard requests by outcome."), []string{"outcome"}),
		retries:     prometheus.NewCounter(counter("downstream_retries_total", "Shard requests retried.")),
		hedges:      prometheus.NewCounter(counter("hedges_total", "Second requests for a slow shard, by option hedge.")),
		hedgesWon:   prometheus.NewCounter(counter("hedges_won_total", "Second requests that were faster.")),
		items:       prometheus.NewCounterVec(counter("items_total", "Series, counts and metrics received from shards (in) and sent to clients (out)."), []string{"direction"}),
		bytes:       prometheus.NewCounterVec(counter("bytes_total", "Bytes of shard bodies, decompressed (in), and of responses, compressed (out)."), []string{"direction"}),
		compared:    prometheus.NewCounter(counter("decoder_compared_requests_total", "Requests decoded by both decoders.")),
		differences: prometheus.NewCounter(counter("decoder_differences_total", "Shard bodies on which the decoders disagreed.")),
	}
}

func (m *metrics) asked(o outcome) { m.downstream.WithLabelValues(string(o)).Inc() }

// observe counts a finished request.
func (m *metrics) observe(r *record) {
	m.requests.WithLabelValues(r.Endpoint, strconv.Itoa(r.Status)).Inc()
	m.seconds.WithLabelValues(r.Endpoint).Observe(r.Total.Seconds())
	if r.Late {
		m.late.Inc()
	}
	m.retries.Add(float64(r.Retries))
	m.items.WithLabelValues("in").Add(float64(r.ItemsIn))
	m.items.WithLabelValues("out").Add(float64(r.ItemsOut))
	m.bytes.WithLabelValues("in").Add(float64(r.BytesIn))
	m.bytes.WithLabelValues("out").Add(float64(r.BytesOut))
}

// all returns the collectors.
func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.requests, m.seconds, m.running, m.late, m.downstream, m.retries, m.hedges, m.hedgesWon, m.items, m.bytes, m.compared, m.differences,
	}
}
