package storegateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/tsblock/diskcache"
)

// diskMetrics export the counts of the disk cache.
type diskMetrics struct {
	cache *diskcache.Cache

	bytes, capacity, pages, queued, writable, lookups, writes, removed, damaged, failures *prometheus.Desc
}

var _ prometheus.Collector = (*diskMetrics)(nil)

func newDiskMetrics(c *diskcache.Cache) *diskMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_store_disk_cache_"+name, help, labels, nil)
	}
	return &diskMetrics{
		cache:    c,
		bytes:    desc("bytes", "Disk space of the cached pages and their table in the disk cache."),
		capacity: desc("capacity_bytes", "Length of the disk cache's file when it is full; 0: its disk failed at the start."),
		pages:    desc("pages", "Pages in the disk cache."),
		queued:   desc("queued_pages", "Pages that wait to be written to the disk cache."),
		writable: desc("writable", "1 while the disk cache stores pages; 0 after a failed write, until one succeeds."),
		lookups:  desc("requests_total", "Lookups of pages in the disk cache, by result: hit or miss.", "result"),
		writes:   desc("insertions_total", "Pages for the disk cache, by result: stored, or dropped because the queue was full or the disk had failed.", "result"),
		removed:  desc("evictions_total", "Pages that left the disk cache, by reason: space, or block (it left the bucket or this process).", "reason"),
		damaged:  desc("damaged_pages_total", "Pages of the disk cache that failed their check when they were read: misses."),
		failures: desc("failures_total", "Failed reads and writes of the disk cache's file."),
	}
}

// Describe implements prometheus.Collector.
func (m *diskMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{
		m.bytes, m.capacity, m.pages, m.queued, m.writable, m.lookups, m.writes, m.removed, m.damaged, m.failures,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *diskMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s := m.cache.Stats()
	writable := int64(0)
	if s.Writable {
		writable = 1
	}
	gauge(m.bytes, s.Bytes)
	gauge(m.capacity, s.Capacity)
	gauge(m.pages, s.Entries)
	gauge(m.queued, s.Queued)
	gauge(m.writable, writable)
	counter(m.lookups, s.Hits, "hit")
	counter(m.lookups, s.Misses, "miss")
	counter(m.writes, s.Insertions, "stored")
	counter(m.writes, s.Dropped, "dropped")
	counter(m.removed, s.Evictions, "space")
	counter(m.removed, s.Removed, "block")
	counter(m.damaged, s.Damaged)
	counter(m.failures, s.Errors)
}
