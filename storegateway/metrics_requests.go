package storegateway

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/slab"
)

// Protocols of requests, as metrics name them.
const (
	protocolHTTP = "http"
	protocolGRPC = "grpc"
)

// Reasons for which a request is refused, as metrics name them.
const (
	refusedQueryBytes   = "query-bytes"
	refusedProcessBytes = "process-bytes"
	refusedQueueTimeout = "queue-timeout"
	refusedQueueFull    = "queue-full"
	refusedTenantQueue  = "tenant-queue"
	refusedSeries       = "max-series"
	refusedChunks       = "max-chunks"
)

var refusals = [...]string{
	refusedQueryBytes, refusedProcessBytes, refusedQueueTimeout, refusedQueueFull, refusedTenantQueue, refusedSeries, refusedChunks,
}

// endpoints are those whose requests read blocks. Their series exist from the start.
var endpoints = map[string][]string{
	protocolHTTP: {"query", "query_range", "series", "labels", "label_values", "read"},
	protocolGRPC: {"Series", "LabelNames", "LabelValues"},
}

// requestMetrics count the requests of the APIs over a gateway.
type requestMetrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	waits    *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	refused  *prometheus.CounterVec

	slow, held, unbuffered, frames *prometheus.Desc

	mu      sync.Mutex
	slowBy  map[string]func() uint64
	waiting map[*promapi.ResponseBudget]struct{} // of the APIs
	direct  []func() uint64                      // responses of the APIs that were written while their query was running
	idle    func() int64                         // bytes of idle frames; nil: no StoreAPI
}

var _ prometheus.Collector = (*requestMetrics)(nil)

func newRequestMetrics() *requestMetrics {
	byEndpoint := []string{"protocol", "endpoint"}
	m := &requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tare_store_requests_total", Help: "Requests, by protocol, endpoint and code: OK, Prometheus' error type or the gRPC code.",
		}, append(byEndpoint[:2:2], "code")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tare_store_request_duration_seconds", Help: "Duration of requests, queueing included.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 30, 120},
		}, byEndpoint),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tare_store_request_wait_seconds", Help: "Time that requests queued for admission.",
			Buckets: []float64{.001, .01, .1, 1, 10, 60},
		}, []string{"protocol"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tare_store_response_bytes_total", Help: "Bytes of responses, before compression.",
		}, []string{"protocol"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tare_store_requests_refused_total",
			Help: "Requests that failed at a limit: over --query-bytes, no free --process-bytes to grow, not admitted in --queue-timeout, queue full, queue of the tenant or client full (--tenant-limits), --max-series or --max-chunks.",
		}, []string{"reason"}),
		slow: prometheus.NewDesc("tare_store_slow_clients_total",
			"Clients disconnected because they took no data of their response, or left their request incomplete, for --write-timeout.", []string{"protocol"}, nil),
		held: prometheus.NewDesc("tare_store_waiting_responses_bytes",
			"Encoded responses that wait for their clients: over HTTP, and those of LabelNames and LabelValues over gRPC.", nil, nil),
		unbuffered: prometheus.NewDesc("tare_store_unbuffered_responses_total",
			"Responses written while their query was running: HTTP streams, and those without room in --response-bytes.", nil, nil),
		frames:  prometheus.NewDesc("tare_store_idle_frames_bytes", "Idle buffers of StoreAPI messages.", nil, nil),
		slowBy:  make(map[string]func() uint64),
		waiting: make(map[*promapi.ResponseBudget]struct{}),
	}
	for _, reason := range refusals {
		m.refused.WithLabelValues(reason)
	}
	return m
}

// requestMetrics returns the metrics of requests, registered with the first API over the gateway.
func (g *Gateway) requestMetrics() *requestMetrics {
	g.requestsOnce.Do(func() {
		g.requests = newRequestMetrics()
		if g.options.Registerer != nil {
			g.options.Registerer.MustRegister(g.requests)
		}
	})
	return g.requests
}

// serveHTTP declares the HTTP API, whose requests are counted.
func (m *requestMetrics) serveHTTP(api *promapi.API, budget *promapi.ResponseBudget) {
	m.serve(protocolHTTP, func() uint64 { return api.Responses().Cut })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[budget] = struct{}{}
	m.direct = append(m.direct, func() uint64 { return api.Responses().Unbuffered })
}

// serveGRPC declares the StoreAPI, whose requests are counted.
func (m *requestMetrics) serveGRPC(api *StoreAPI) {
	m.serve(protocolGRPC, api.cut.Load)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[api.options.Responses] = struct{}{}
	m.direct = append(m.direct, api.unbuffered.Load)
	m.idle = api.FrameBytes
}

func (m *requestMetrics) serve(protocol string, slow func() uint64) {
	for _, endpoint := range endpoints[protocol] {
		m.requests.WithLabelValues(protocol, endpoint, okCode)
		m.seconds.WithLabelValues(protocol, endpoint)
	}
	m.waits.WithLabelValues(protocol)
	m.bytes.WithLabelValues(protocol)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slowBy[protocol] = slow
}

// count counts a request. err is the error it failed with, nil for none.
func (m *requestMetrics) count(protocol, endpoint, code string, total, wait time.Duration, bytes int64, err error) {
	m.requests.WithLabelValues(protocol, endpoint, code).Inc()
	m.seconds.WithLabelValues(protocol, endpoint).Observe(total.Seconds())
	m.waits.WithLabelValues(protocol).Observe(wait.Seconds())
	m.bytes.WithLabelValues(protocol).Add(float64(max(bytes, 0)))
	if reason := refusalOf(err); reason != "" {
		m.refused.WithLabelValues(reason).Inc()
	}
}

// refusalOf returns the limit at which a request failed; "" for none.
func refusalOf(err error) string {
	if err == nil {
		return ""
	}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		switch limit.What {
		case limitSeries:
			return refusedSeries
		case limitChunks:
			return refusedChunks
		}
		return ""
	}
	_, queued := errors.AsType[*QueueError](err)
	switch {
	case errors.Is(err, slab.ErrOverQuota):
		return refusedQueryBytes
	case errors.Is(err, slab.ErrShort):
		return refusedProcessBytes
	case queued:
		return refusedQueueTimeout
	case errors.Is(err, slab.ErrQueueFull):
		return refusedTenantQueue
	case errors.Is(err, promapi.ErrTooMany):
		return refusedQueueFull
	}
	return ""
}

func (m *requestMetrics) parts() [5]prometheus.Collector {
	return [...]prometheus.Collector{m.requests, m.seconds, m.waits, m.bytes, m.refused}
}

// Describe implements prometheus.Collector.
func (m *requestMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.parts() {
		c.Describe(ch)
	}
	for _, d := range [...]*prometheus.Desc{m.slow, m.held, m.unbuffered, m.frames} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *requestMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.parts() {
		c.Collect(ch)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for protocol, slow := range m.slowBy {
		ch <- prometheus.MustNewConstMetric(m.slow, prometheus.CounterValue, float64(slow()), protocol)
	}
	held, unbuffered := int64(0), uint64(0)
	for b := range m.waiting {
		held += b.Held()
	}
	for _, n := range m.direct {
		unbuffered += n()
	}
	ch <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, float64(held))
	ch <- prometheus.MustNewConstMetric(m.unbuffered, prometheus.CounterValue, float64(unbuffered))
	idle := int64(0)
	if m.idle != nil {
		idle = m.idle()
	}
	ch <- prometheus.MustNewConstMetric(m.frames, prometheus.GaugeValue, float64(idle))
}
