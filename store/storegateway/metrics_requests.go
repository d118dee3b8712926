package storegateway

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/promapi"
)

// A Protocol is an API over a gateway whose requests are counted.
type Protocol struct {
	Name      string   // "http" or "grpc"
	Endpoints []string // endpoints that read blocks: their metrics exist from the start

	Responses   *promapi.ResponseBudget // budget of encoded responses that wait for their clients
	SlowClients func() uint64           // clients disconnected because they took no data
	Unbuffered  func() uint64           // responses written while their query was running
	IdleFrames  func() int64            // bytes of idle frames; nil: the API has none
}

// Values of the metric's label for the reason of a refused request.
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

// Requests counts the requests of the APIs of a gateway. It is safe for concurrent use.
type Requests struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	waits    *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	refused  *prometheus.CounterVec

	slow, held, unbuffered, frames *prometheus.Desc

	mu        sync.Mutex
	protocols map[string]Protocol
}

var _ prometheus.Collector = (*Requests)(nil)

func newRequests() *Requests {
	byEndpoint := []string{"protocol", "endpoint"}
	m := &Requests{
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
			Help: "Requests that failed at a limit: query-bytes, process-bytes, queue-timeout, queue-full, tenant-queue, max-series or max-chunks.",
		}, []string{"reason"}),
		slow: prometheus.NewDesc("tare_store_slow_clients_total",
			"Clients disconnected by option write-timeout.", []string{"protocol"}, nil),
		held: prometheus.NewDesc("tare_store_waiting_responses_bytes",
			"Encoded responses that wait for their clients.", nil, nil),
		unbuffered: prometheus.NewDesc("tare_store_unbuffered_responses_total",
			"Responses written while their query ran: streams, and those without room in option response-bytes.", nil, nil),
		frames:    prometheus.NewDesc("tare_store_idle_frames_bytes", "Idle buffers of StoreAPI messages.", nil, nil),
		protocols: make(map[string]Protocol),
	}
	for _, reason := range refusals {
		m.refused.WithLabelValues(reason)
	}
	return m
}

// Serve registers an API of the gateway and returns the counter of its requests.
func (g *Gateway) Serve(p Protocol) *Requests {
	g.requestsOnce.Do(func() {
		g.requests = newRequests()
		if g.options.Registerer != nil {
			g.options.Registerer.MustRegister(g.requests)
		}
	})
	m := g.requests
	for _, endpoint := range p.Endpoints {
		m.requests.WithLabelValues(p.Name, endpoint, CodeOK)
		m.seconds.WithLabelValues(p.Name, endpoint)
	}
	m.waits.WithLabelValues(p.Name)
	m.bytes.WithLabelValues(p.Name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.protocols[p.Name] = p
	return m
}

// Count counts a finished request of a protocol. err is its error, or nil.
func (m *Requests) Count(protocol string, e *LogEntry, err error) {
	m.requests.WithLabelValues(protocol, e.Endpoint, e.Code).Inc()
	m.seconds.WithLabelValues(protocol, e.Endpoint).Observe(e.Total.Seconds())
	m.waits.WithLabelValues(protocol).Observe(e.Wait.Seconds())
	m.bytes.WithLabelValues(protocol).Add(float64(e.BytesOut))
	if reason := refusalOf(err); reason != "" {
		m.refused.WithLabelValues(reason).Inc()
	}
}

// refusalOf returns the limit that refused a request, or "".
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
	_, queued := errors.AsType[*queueError](err)
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

func (m *Requests) parts() [5]prometheus.Collector {
	return [...]prometheus.Collector{m.requests, m.seconds, m.waits, m.bytes, m.refused}
}

// Describe implements prometheus.Collector.
func (m *Requests) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.parts() {
		c.Describe(ch)
	}
	for _, d := range [...]*prometheus.Desc{m.slow, m.held, m.unbuffered, m.frames} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Requests) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.parts() {
		c.Collect(ch)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	held, unbuffered, idle := int64(0), uint64(0), int64(0)
	budgets := make(map[*promapi.ResponseBudget]bool) // APIs may share one
	for name, p := range m.protocols {
		ch <- prometheus.MustNewConstMetric(m.slow, prometheus.CounterValue, float64(p.SlowClients()), name)
		if !budgets[p.Responses] {
			budgets[p.Responses] = true
			held += p.Responses.Reserved()
		}
		unbuffered += p.Unbuffered()
		if p.IdleFrames != nil {
			idle += p.IdleFrames()
		}
	}
	ch <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, float64(held))
	ch <- prometheus.MustNewConstMetric(m.unbuffered, prometheus.CounterValue, float64(unbuffered))
	ch <- prometheus.MustNewConstMetric(m.frames, prometheus.GaugeValue, float64(idle))
}
