package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/querylog"
)

// A queryLogCollector answers a query log's counts to Prometheus.
type queryLogCollector struct {
	log *querylog.Logger

	records, bytes, queued, readers, seq, held, unaccounted *prometheus.Desc
}

func newQueryLogCollector(log *querylog.Logger) *queryLogCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_querylog_"+name, help, labels, nil)
	}
	return &queryLogCollector{
		log: log,
		records: desc("records_total", "Records by outcome per sink; offered is the sum of the other outcomes and the queue. "+
			"Sinks are file paths, ring, and http for all readers.", "sink", "outcome"),
		bytes:       desc("bytes_total", "Bytes written to a sink.", "sink"),
		queued:      desc("queued_bytes", "Memory queued for a sink; for the ring, its size.", "sink"),
		readers:     desc("readers", "Clients reading /debug/querylog."),
		seq:         desc("seq", "Number of the last line of this process's run."),
		held:        desc("held_records", "Records suppressed by the rate limit per digest, to be counted in the digest's next line."),
		unaccounted: desc("unaccounted_records_total", "Records suppressed by the rate limit per digest that no line counts."),
	}
}

// Describe implements prometheus.Collector.
func (c *queryLogCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *queryLogCollector) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v), labels...)
	}
	st := c.log.Stats()
	for _, s := range st.Sinks {
		send(c.records, prometheus.CounterValue, s.Offered, s.Name, "offered")
		send(c.records, prometheus.CounterValue, s.Written, s.Name, "written")
		send(c.records, prometheus.CounterValue, s.Dropped, s.Name, "dropped")
		send(c.bytes, prometheus.CounterValue, s.Bytes, s.Name)
		send(c.queued, prometheus.GaugeValue, uint64(s.QueuedBytes), s.Name)
	}
	send(c.readers, prometheus.GaugeValue, uint64(st.Readers))
	send(c.seq, prometheus.GaugeValue, st.Seq)
	send(c.held, prometheus.GaugeValue, st.Held)
	send(c.unaccounted, prometheus.CounterValue, st.Unaccounted)
}

var _ prometheus.Collector = (*queryLogCollector)(nil)
