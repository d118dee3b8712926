package remotewrite

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are what a Sender has done.
type counts struct {
	floats, histograms          atomic.Uint64 // written by the receiver
	repeated, rejected, dropped atomic.Uint64 // samples of both kinds
	requests, bytes, failures   atomic.Uint64
	lostMillis                  atomic.Int64
	pending                     atomic.Int64
	unsentSince                 atomic.Int64 // Unix milliseconds; 0: all was sent
}

func (c *counts) sent(floats, histograms int) {
	c.floats.Add(uint64(floats))
	c.histograms.Add(uint64(histograms))
}

// pend stores the requests that were read and not sent.
func (c *counts) pend(requests []request) {
	n := 0
	for i := range requests {
		n += requests[i].samples + requests[i].histograms
	}
	c.pending.Store(int64(n))
}

// since returns the time from which samples were not sent; zero if all were.
func (c *counts) since() time.Time {
	if at := c.unsentSince.Load(); at > 0 {
		return time.UnixMilli(at).UTC()
	}
	return time.Time{}
}

// A metric is one of a Sender.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func() float64
}

// A collector has the metrics of a Sender.
type collector []metric

// NewCollector returns the metrics of a Sender.
func NewCollector(s *Sender) prometheus.Collector {
	var out collector
	add := func(kind prometheus.ValueType, name, help string, value func() float64, labels ...string) {
		var constant prometheus.Labels
		if len(labels) == 2 {
			constant = prometheus.Labels{labels[0]: labels[1]}
		}
		out = append(out, metric{prometheus.NewDesc("tare_history_remote_write_"+name, help, nil, constant), kind, value})
	}
	counter := func(name, help string, n *atomic.Uint64, labels ...string) {
		add(prometheus.CounterValue, name, help, func() float64 { return float64(n.Load()) }, labels...)
	}
	c := &s.counts
	const sent = "Samples that the receiver has taken."
	counter("sent_samples_total", sent, &c.floats, "kind", "float")
	counter("sent_samples_total", sent, &c.histograms, "kind", "histogram")
	counter("repeated_samples_total", "Samples sent again that the receiver had.", &c.repeated)
	const lost = "Samples that the receiver rejected, or dropped without an error."
	counter("lost_samples_total", lost, &c.rejected, "reason", "rejected")
	counter("lost_samples_total", lost, &c.dropped, "reason", "dropped")
	add(prometheus.CounterValue, "lost_seconds_total", "Length of the ranges that were deleted before they could be sent.",
		func() float64 { return float64(c.lostMillis.Load()) / 1000 })
	counter("requests_total", "Requests, repeated ones included.", &c.requests)
	counter("bytes_total", "Bytes of requests that got a response, compressed.", &c.bytes)
	counter("failures_total", "Requests that failed and were sent again.", &c.failures)
	add(prometheus.GaugeValue, "pending_samples", "Samples of the current window not taken yet.", func() float64 { return float64(c.pending.Load()) })
	add(prometheus.GaugeValue, "unsent_seconds", "Age of the oldest sample not taken yet; 0 if there is none.", func() float64 {
		if at := c.since(); !at.IsZero() {
			return max(0, s.o.Now().Sub(at).Seconds())
		}
		return 0
	})
	return out
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value())
	}
}
