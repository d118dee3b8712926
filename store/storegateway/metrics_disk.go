package storegateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/sharedcache"
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
		writes:   desc("insertions_total", "Pages for the disk cache: stored, or dropped (queue full, disk failed).", "result"),
		removed:  desc("evictions_total", "Pages that left the disk cache: space, or block (no longer served).", "reason"),
		damaged:  desc("damaged_pages_total", "Pages of the disk cache that failed their check: misses."),
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

// sharedMetrics export the counts of the shared cache.
type sharedMetrics struct {
	cache *sharedcache.Cache

	lookups, damaged, bytes, writes, queued, up, failures *prometheus.Desc
}

var _ prometheus.Collector = (*sharedMetrics)(nil)

func newSharedMetrics(c *sharedcache.Cache) *sharedMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_store_memcached_"+name, help, labels, nil)
	}
	return &sharedMetrics{
		cache:    c,
		lookups:  desc("requests_total", "Lookups of pages in memcached: hit, miss, failed, or skipped (server paused, too many calls).", "result"),
		damaged:  desc("damaged_pages_total", "Values from memcached that are damaged or of another page: misses."),
		bytes:    desc("bytes_total", "Bytes of pages from and to memcached, by direction: read or written.", "direction"),
		writes:   desc("insertions_total", "Pages for memcached: stored, dropped (queue full, server paused), or failed.", "result"),
		queued:   desc("queued_bytes", "Bytes of pages that wait to be written to memcached."),
		up:       desc("server_up", "1 while the memcached server is called; 0 while it is paused after failures.", "server"),
		failures: desc("failures_total", "Failed calls of the memcached server.", "server"),
	}
}

// Describe implements prometheus.Collector.
func (m *sharedMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{m.lookups, m.damaged, m.bytes, m.writes, m.queued, m.up, m.failures} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *sharedMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s := m.cache.Stats()
	counter(m.lookups, s.Hits, "hit")
	counter(m.lookups, s.Misses, "miss")
	counter(m.lookups, s.Failed, "failed")
	counter(m.lookups, s.Skipped, "skipped")
	counter(m.damaged, s.Damaged)
	counter(m.bytes, s.BytesRead, "read")
	counter(m.bytes, s.BytesWritten, "written")
	counter(m.writes, s.Stored, "stored")
	counter(m.writes, s.Dropped, "dropped")
	counter(m.writes, s.WritesFailed, "failed")
	gauge(m.queued, float64(s.Queued))
	for i := range s.Servers {
		up := 0.0
		if s.Servers[i].Called {
			up = 1
		}
		gauge(m.up, up, s.Servers[i].Name)
		counter(m.failures, s.Servers[i].Failures, s.Servers[i].Name)
	}
}
