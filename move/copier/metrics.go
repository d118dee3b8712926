package copier

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/mysql/binlog"
)

// Metrics are the metrics of a copy, set as Options.Metrics. The counters start at 0 with the process. The
// gauges are derived from the copy's status; a gauge whose value is unknown is absent, never 0.
type Metrics struct {
	Heap HeapBytes

	rows, bytes, chunks, retries, verified, differing atomic.Int64
	changes                                           [binlog.Delete + 1]atomic.Int64 // by kind

	mu     sync.Mutex
	status func() telemetry.Status // nil before Run; under mu

	now func() time.Time // nil: time.Now
}

var _ prometheus.Collector = (*Metrics)(nil)

// from sets the function that the gauges are read from.
func (m *Metrics) from(status func() telemetry.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status = status
}

// Status returns the status of the copy, which is in the phase preparing before it connects.
func (m *Metrics) Status() telemetry.Status {
	m.mu.Lock()
	status := m.status
	m.mu.Unlock()
	if status != nil {
		if s := status(); s.Version != 0 || s.Phase != "" {
			return s
		}
	}
	return telemetry.IdleStatus()
}

// observe counts an event.
func (m *Metrics) observe(e telemetry.Event) {
	switch e.Kind {
	case telemetry.EventChunk:
		m.chunks.Add(1)
		m.rows.Add(e.Rows)
		m.bytes.Add(e.Bytes)
	case telemetry.EventRetry:
		m.retries.Add(1)
	case telemetry.EventVerified:
		m.verified.Add(1)
	case telemetry.EventDiffers:
		m.differing.Add(1)
	}
}

// applied counts changes of rows, by kind.
func (m *Metrics) applied(counts *follow.Counts) {
	if m != nil {
		for kind, n := range counts {
			m.changes[kind].Add(n)
		}
	}
}

// meter connects the metrics to the events and the status of the copy.
func (o *Options) meter(c *controlled) {
	if o.Metrics == nil {
		return
	}
	o.Metrics.from(c.status)
	observe := o.Observe
	o.Observe = func(e telemetry.Event) {
		o.Metrics.observe(e)
		observe(e)
	}
}

// copyDescs are the descriptors of the metrics.
type copyDescs struct {
	phase, rows, estimate, progress, rate, held, waits *prometheus.Desc
	limit, bound                                       *prometheus.Desc
	lag, confirmed, behind, caughtUp, outrun           *prometheus.Desc

	rowsTotal, bytesTotal, chunksTotal, changesTotal, retries, verified, differing *prometheus.Desc
}

func newCopyDescs() *copyDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_copy_"+name, help, labels, nil)
	}
	return &copyDescs{
		phase:    desc("phase", "1 for the phase of the copy, 0 for the others.", "phase"),
		rows:     desc("rows", "Rows of all tables in the target."),
		estimate: desc("rows_estimate", "Rows of all tables in the source, estimated."),
		progress: desc("progress_ratio", "Fraction of the rows that are copied; 1: all."),
		rate:     desc("throttle_rate", "Fraction of full speed that the throttle allows; 0: paused."),
		held:     desc("throttle_held_seconds_total", "Time for which a limit has held the copy back.", "limit"),
		limit:    desc("limit_value", "Last value of a limited metric, in seconds if it is a time. Absent: unknown.", "limit"),
		bound:    desc("limit_bound", "Bound of a limited metric, in seconds if it is a time.", "limit"),
		waits:    desc("wait_seconds", "How long the copy has been waiting, by reason.", "wait"),

		lag: desc("lag_seconds", "How far the followed side's changes are behind on the other side, as proven by a heartbeat (option heartbeat=off: by "+
			"positions). Absent: unknown, or not following."),
		confirmed: desc("lag_confirmed_timestamp_seconds", "When the lag was last proven. Absent: never, or not following."),
		behind:    desc("lag_bytes", "Bytes of binary log that are not applied. Absent: unknown, or not following."),
		caughtUp:  desc("caught_up", "1 since the target has caught up for the first time. Absent: not following."),
		outrun:    desc("outrun", "1 while changes are written faster than applied, after half a minute. Absent: not following."),

		rowsTotal:    desc("rows_total", "Rows copied."),
		bytesTotal:   desc("row_bytes_total", "Bytes of rows copied."),
		chunksTotal:  desc("chunks_total", "Chunks copied."),
		changesTotal: desc("changes_total", "Row changes applied.", "kind"),
		retries:      desc("retries_total", "Transactions and connections retried."),
		verified:     desc("verified_chunks_total", "Chunks found equal on both sides."),
		differing:    desc("differing_chunks_total", "Chunks found to differ."),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	d := newCopyDescs()
	for _, one := range []*prometheus.Desc{
		d.phase, d.rows, d.estimate, d.progress, d.rate, d.held, d.waits, d.limit, d.bound, d.lag, d.confirmed, d.behind, d.caughtUp, d.outrun,
		d.rowsTotal, d.bytesTotal, d.chunksTotal, d.changesTotal, d.retries, d.verified, d.differing,
	} {
		ch <- one
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	d := newCopyDescs()
	count := func(desc *prometheus.Desc, n *atomic.Int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n.Load()), labels...)
	}
	count(d.rowsTotal, &m.rows)
	count(d.bytesTotal, &m.bytes)
	count(d.chunksTotal, &m.chunks)
	count(d.retries, &m.retries)
	count(d.verified, &m.verified)
	count(d.differing, &m.differing)
	for kind, name := range map[binlog.ChangeKind]string{binlog.Insert: "insert", binlog.Update: "update", binlog.Delete: "delete"} {
		count(d.changesTotal, &m.changes[kind], name)
	}
	s := m.Status()
	now := time.Now
	if m.now != nil {
		now = m.now
	}
	d.collect(ch, &s, now())
}

// collect sends the gauges of a status.
func (d *copyDescs) collect(ch chan<- prometheus.Metric, s *telemetry.Status, now time.Time) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	for _, p := range []telemetry.RunPhase{telemetry.RunPreparing, telemetry.RunCopying, telemetry.RunVerifying, telemetry.RunFollowing, telemetry.RunReversing} {
		gauge(d.phase, truth(p == s.Phase), string(p))
	}
	gauge(d.rate, s.Throttle.Share)
	d.collectLimits(gauge, ch, s.Throttle.Limits)
	if p := s.Progress; p != nil {
		gauge(d.rows, float64(p.Rows))
		gauge(d.estimate, float64(p.RowsEstimate))
		gauge(d.progress, p.Percent/100)
	}
	longest := make(map[string]float64) // several workers may wait for the same thing
	for _, w := range s.Waits {
		longest[w.For] = max(longest[w.For], w.Seconds)
	}
	for what, seconds := range longest {
		gauge(d.waits, seconds, what)
	}
	f := s.Follow
	if f == nil {
		return
	}
	gauge(d.caughtUp, truth(f.CaughtUp))
	gauge(d.outrun, truth(f.Outrun != nil))
	if f.LagSeconds != nil {
		gauge(d.lag, *f.LagSeconds)
	}
	if f.ConfirmedSeconds != nil {
		gauge(d.confirmed, float64(now.UnixMilli())/1000-*f.ConfirmedSeconds)
	}
	if f.LagBytes != nil {
		gauge(d.behind, float64(*f.LagBytes))
	}
}

// collectLimits sends the metrics of the limits. A server may be named twice, and so a limit.
func (d *copyDescs) collectLimits(gauge func(*prometheus.Desc, float64, ...string), ch chan<- prometheus.Metric, limits []throttle.LimitStatus) {
	held, value, bound := make(map[string]float64), make(map[string]float64), make(map[string]float64)
	for _, l := range limits {
		unit := 1.0
		if l.Unit == "ms" {
			unit = 1e-3
		}
		held[l.Name] += l.HeldSeconds
		bound[l.Name] = l.Bound * unit
		if l.Error == "" {
			value[l.Name] = max(value[l.Name], l.Value*unit)
		}
	}
	for name, seconds := range held {
		ch <- prometheus.MustNewConstMetric(d.held, prometheus.CounterValue, seconds, name)
		gauge(d.bound, bound[name], name)
	}
	for name, v := range value {
		gauge(d.limit, v, name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
