package storegateway

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/tsblock"
)

// budgetMetrics export the bytes of queries, slabs and index pages, and the reads of queries.
type budgetMetrics struct {
	gateway *Gateway

	limit, reserved, peak                   *prometheus.Desc
	running, waiting, admitted, left        *prometheus.Desc
	cacheBytes, cachePages, cacheGets, lost *prometheus.Desc
	slabBytes, slabLends, slabMade          *prometheus.Desc
	readBytes, reads                        *prometheus.Desc

	nameRunning, nameWaiting, nameBytes, nameRefused *prometheus.Desc // of tenants and clients

	mu   sync.Mutex
	read tsblock.Stats // by finished queries
}

var _ prometheus.Collector = (*budgetMetrics)(nil)

func newBudgetMetrics(g *Gateway) *budgetMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_store_"+name, help, labels, nil)
	}
	return &budgetMetrics{
		gateway:    g,
		limit:      desc("budget_bytes", "Memory limits: of one query, all queries, light queries, the index cache.", "budget"),
		reserved:   desc("reserved_bytes", "Memory reserved by running queries."),
		peak:       desc("reserved_peak_bytes", "High-water mark of the memory reserved by running queries."),
		running:    desc("queries_running", "Queries admitted and not finished."),
		waiting:    desc("queries_waiting", "Queries that queue for admission, by lane: main or light.", "lane"),
		admitted:   desc("queries_admitted_total", "Queries admitted."),
		left:       desc("queries_abandoned_total", "Queries that left the queue: cancelled or timed out."),
		cacheBytes: desc("index_cache_bytes", "Memory of the index cache."),
		cachePages: desc("index_cache_pages", "Pages in the index cache."),
		cacheGets:  desc("index_cache_requests_total", "Lookups of pages in the index cache, by result: hit or miss.", "result"),
		lost:       desc("index_cache_evictions_total", "Pages evicted from the index cache."),
		slabBytes:  desc("slab_bytes", "Memory of slabs, by pool (chunks or series) and state (lent or idle).", "pool", "state"),
		slabLends:  desc("slab_lends_total", "Slabs lent to queries.", "pool"),
		slabMade:   desc("slab_allocations_total", "Slabs allocated because none was idle.", "pool"),
		readBytes: desc("read_bytes_total",
			"Bytes read by finished queries: cached, disk (cache), memcached, fetched (bucket or local file), wasted (gaps).", "kind", "origin"),
		nameRunning: desc("tenant_queries_running", "Running queries by tenant or client.", "kind", "name"),
		nameWaiting: desc("tenant_queries_waiting", "Queueing queries by tenant or client.", "kind", "name"),
		nameBytes:   desc("tenant_granted_bytes", "Memory granted to queries of a tenant or client in option tenant-limits, or <other>.", "kind", "name"),
		nameRefused: desc("tenant_requests_refused_total", "Requests refused by a full queue, by tenant or client.", "kind", "name"),
		reads:       desc("reads_total", "Ranges fetched by finished queries, by kind of data.", "kind"),
	}
}

// add counts the reads of a finished part of a query.
func (m *budgetMetrics) add(s *tsblock.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read.Add(s)
}

// Describe implements prometheus.Collector.
func (m *budgetMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{
		m.limit, m.reserved, m.peak, m.running, m.waiting, m.admitted, m.left,
		m.cacheBytes, m.cachePages, m.cacheGets, m.lost, m.slabBytes, m.slabLends, m.slabMade, m.readBytes, m.reads,
	} {
		ch <- d
	}
	if m.gateway.options.Limiter != nil {
		for _, d := range [...]*prometheus.Desc{m.nameRunning, m.nameWaiting, m.nameBytes, m.nameRefused} {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (m *budgetMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s, cache := m.gateway.options.Gate.Stats(), m.gateway.options.Cache.Stats()
	gauge(m.limit, s.PerQuery, "query")
	gauge(m.limit, s.Bytes, "queries")
	gauge(m.limit, s.Light, "light-queries")
	gauge(m.limit, cache.Capacity, "index-cache")
	gauge(m.reserved, s.Held)
	gauge(m.peak, s.Peak)
	gauge(m.running, int64(s.Running))
	gauge(m.waiting, int64(s.Waiting-s.LightWaiting), "main")
	gauge(m.waiting, int64(s.LightWaiting), "light")
	counter(m.admitted, s.Admitted)
	counter(m.left, s.Cancelled)

	gauge(m.cacheBytes, cache.Bytes)
	gauge(m.cachePages, int64(cache.Entries))
	counter(m.cacheGets, int64(cache.Hits), "hit")
	counter(m.cacheGets, int64(cache.Misses), "miss")
	evicted := uint64(0)
	for _, n := range cache.Evicted {
		evicted += n
	}
	counter(m.lost, int64(evicted))

	for pool, p := range map[string]slab.PoolStats{"chunks": m.gateway.options.Pool.Stats(), "series": m.gateway.Entries().Stats()} {
		gauge(m.slabBytes, p.OutBytes, pool, "lent")
		gauge(m.slabBytes, p.IdleBytes, pool, "idle")
		counter(m.slabLends, p.Calls, pool)
		counter(m.slabMade, p.Made, pool)
	}

	if limiter := m.gateway.options.Limiter; limiter != nil {
		counts := limiter.counts(m.gateway.options.Gate)
		for _, n := range sortedNames(counts) {
			c := counts[n]
			gauge(m.nameRunning, int64(c.Running), n.kind, n.name)
			gauge(m.nameWaiting, int64(c.Waiting), n.kind, n.name)
			gauge(m.nameBytes, c.Bytes, n.kind, n.name)
			counter(m.nameRefused, int64(c.refused), n.kind, n.name)
		}
	}

	m.mu.Lock()
	read := m.read
	m.mu.Unlock()
	for kind, u := range map[string]*tsblock.Usage{
		"table": &read.Table, "postings": &read.Postings, "series": &read.Series,
		"symbols": &read.Symbols, "hashes": &read.Hashes, "chunks": &read.Chunks,
	} {
		counter(m.readBytes, u.Cached, kind, "cached")
		counter(m.readBytes, u.Disk, kind, "disk")
		counter(m.readBytes, u.Shared, kind, "memcached")
		counter(m.readBytes, u.Fetched, kind, "fetched")
		counter(m.readBytes, u.Wasted, kind, "wasted")
		counter(m.reads, u.Reads, kind)
	}
}
