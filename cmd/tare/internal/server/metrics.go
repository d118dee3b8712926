package server

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/taredb/tare/querylog"
)

// A Registry is a Prometheus registry that also lists its collectors, so that documentation can include
// metrics without a value.
type Registry struct {
	*prometheus.Registry
	collectors []prometheus.Collector
}

var _ prometheus.Registerer = (*Registry)(nil)

// NewRegistry returns a Registry with the metrics of the process: its CPU time and memory, and the Go runtime's.
func NewRegistry() *Registry {
	r := EmptyRegistry()
	r.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(cpu/classes|gc/heap|memory/classes|sched/(gomaxprocs|goroutines|latencies))`)},
		)),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

// EmptyRegistry returns a Registry for metrics that are gathered with those of another one.
func EmptyRegistry() *Registry { return &Registry{Registry: prometheus.NewRegistry()} }

// Collectors returns the registered collectors.
func (r *Registry) Collectors() []prometheus.Collector { return r.collectors }

// Register implements prometheus.Registerer.
func (r *Registry) Register(c prometheus.Collector) error {
	if err := r.Registry.Register(c); err != nil {
		return err
	}
	r.collectors = append(r.collectors, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *Registry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

var lossDesc = prometheus.NewDesc("tare_local_state_lost_total",
	"Files in --data-dir that were damaged or missing at the start.", []string{"piece"}, nil)

// Describe implements prometheus.Collector: the counters of local state that could not be used.
func (d *DataDir) Describe(ch chan<- *prometheus.Desc) { ch <- lossDesc }

// Collect implements prometheus.Collector.
func (d *DataDir) Collect(ch chan<- prometheus.Metric) {
	if d == nil {
		return
	}
	for piece, n := range d.State.Counts() {
		ch <- prometheus.MustNewConstMetric(lossDesc, prometheus.CounterValue, float64(n), piece)
	}
}

// A queryLogCollector exposes the counters of a query log.
type queryLogCollector struct {
	log *querylog.Logger

	records, bytes, queued, readers, seq, held, unaccounted *prometheus.Desc
}

// NewQueryLogCollector returns the collector of a query log's counters.
func NewQueryLogCollector(log *querylog.Logger) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_querylog_"+name, help, labels, nil)
	}
	return &queryLogCollector{
		log: log,
		records: desc("records_total", "Records by outcome; offered is the sum of the others and the queue. "+
			"Sinks are file paths, ring, and http for all readers.", "sink", "outcome"),
		bytes:       desc("bytes_total", "Bytes written to a sink.", "sink"),
		queued:      desc("queued_bytes", "Memory queued for a sink; for the ring, its size.", "sink"),
		readers:     desc("readers", "Clients reading /debug/querylog."),
		seq:         desc("seq", "Number of the last line of this process's run."),
		held:        desc("held_records", "Records suppressed by log-per-digest until the digest's next line."),
		unaccounted: desc("unaccounted_records_total", "Records suppressed by log-per-digest that no line counts."),
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
