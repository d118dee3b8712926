package blocksync

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/store/tsblock"
)

// metrics counts bucket calls and syncs. As a collector it also derives gauges from the served set when
// scraped.
type metrics struct {
	syncer *Syncer

	unloads     atomic.Uint64
	readRetries atomic.Uint64
	readHedges  atomic.Uint64
	bucketReads atomic.Uint64 // reads of blocks
	readBytes   atomic.Uint64
	readErrors  atomic.Uint64

	syncs       *prometheus.CounterVec
	syncSeconds prometheus.Histogram
	loads       *prometheus.CounterVec
	loadSeconds prometheus.Histogram

	ready, lastSync, blocks, loaded, tenants, skipped, foreign, gone *prometheus.Desc
	unloadsDesc, retriesDesc, hedgesDesc                             *prometheus.Desc
	bucketReadsDesc, readBytesDesc, readErrorsDesc                   *prometheus.Desc
}

var _ prometheus.Collector = (*metrics)(nil)

func newMetrics(g *Syncer) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_store_"+name, help, labels, nil)
	}
	m := &metrics{
		syncer: g,
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tare_store_syncs_total", Help: "Syncs with the bucket, by result: ok or error.",
		}, []string{"result"}),
		syncSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tare_store_sync_duration_seconds", Help: "Duration of syncs with the bucket.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900},
		}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tare_store_index_header_loads_total", Help: "Index headers loaded into memory, by result: ok or error.",
		}, []string{"result"}),
		loadSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tare_store_index_header_load_duration_seconds", Help: "Duration of index header loads, queueing included.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60},
		}),
		ready:           desc("ready", "1 after the first successful sync."),
		lastSync:        desc("last_sync_timestamp_seconds", "End of the last successful sync; 0 before the first."),
		blocks:          desc("blocks", "Blocks served."),
		loaded:          desc("index_headers_loaded", "Blocks whose index header is in memory."),
		tenants:         desc("tenants", "Tenants whose blocks are served."),
		skipped:         desc("blocks_skipped", "Blocks in the bucket that are skipped, by reason.", "reason"),
		foreign:         desc("foreign_objects", "Objects and directories in the bucket that belong to no block."),
		gone:            desc("blocks_gone", "Blocks that left the listing without a mark or a replacement."),
		unloadsDesc:     desc("index_header_unloads_total", "Index headers unloaded because no query used them."),
		hedgesDesc:      desc("read_hedges_total", "Block reads repeated after option bucket-hedge."),
		bucketReadsDesc: desc("bucket_reads_total", "Reads of a range of a block's object in the bucket, on disk or remote."),
		readBytesDesc:   desc("bucket_read_bytes_total", "Bytes of these reads."),
		readErrorsDesc:  desc("bucket_read_failures_total", "Of these reads, those that failed, a missing object and cancelled reads included."),
		retriesDesc:     desc("read_retries_total", "Block reads retried."),
	}
	for _, result := range [...]string{"ok", "error"} {
		m.syncs.WithLabelValues(result)
		m.loads.WithLabelValues(result)
	}
	return m
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

func (m *metrics) synced(d time.Duration, err error) {
	m.syncs.WithLabelValues(result(err)).Inc()
	m.syncSeconds.Observe(d.Seconds())
}

// blockRead counts a read of n bytes of a block. The end of an object is not a failure.
func (m *metrics) blockRead(n int, err error) {
	m.bucketReads.Add(1)
	m.readBytes.Add(uint64(n))
	if err != nil && !errors.Is(err, tsblock.ErrObjectEnd) {
		m.readErrors.Add(1)
	}
}

func (m *metrics) headerLoaded(d time.Duration, err error) {
	m.loads.WithLabelValues(result(err)).Inc()
	m.loadSeconds.Observe(d.Seconds())
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.parts() {
		c.Describe(ch)
	}
	for _, d := range [...]*prometheus.Desc{
		m.ready, m.lastSync, m.blocks, m.loaded, m.tenants, m.skipped, m.foreign, m.gone, m.unloadsDesc, m.retriesDesc, m.hedgesDesc,
		m.bucketReadsDesc, m.readBytesDesc, m.readErrorsDesc,
	} {
		ch <- d
	}
}

func (m *metrics) parts() [4]prometheus.Collector {
	return [...]prometheus.Collector{m.syncs, m.syncSeconds, m.loads, m.loadSeconds}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.parts() {
		c.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	set, status := m.syncer.current(), m.syncer.Status()
	ready, last := 0.0, 0.0
	if m.syncer.Ready() {
		ready = 1
	}
	if !status.LastGood.IsZero() {
		last = float64(status.LastGood.UnixMilli()) / 1000
	}
	loaded := 0
	for b := range set.all() {
		if b.data.Loaded() {
			loaded++
		}
	}
	skipped := make(map[SkipReason]int)
	for i := range set.root.skipped {
		skipped[set.root.skipped[i].Reason]++
	}
	for _, t := range set.tenants {
		for i := range t.skipped {
			skipped[t.skipped[i].Reason]++
		}
		skipped[SkipOtherShard] += t.others
	}
	gauge(m.ready, ready)
	gauge(m.lastSync, last)
	gauge(m.blocks, float64(set.size()))
	gauge(m.loaded, float64(loaded))
	gauge(m.tenants, float64(len(set.tenants)))
	gauge(m.foreign, float64(status.Foreign))
	gauge(m.gone, float64(status.Gone))
	for _, reason := range skipReasons {
		gauge(m.skipped, float64(skipped[reason]), string(reason))
	}
	counter := func(d *prometheus.Desc, v *atomic.Uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()))
	}
	counter(m.unloadsDesc, &m.unloads)
	counter(m.hedgesDesc, &m.readHedges)
	counter(m.retriesDesc, &m.readRetries)
	counter(m.bucketReadsDesc, &m.bucketReads)
	counter(m.readBytesDesc, &m.readBytes)
	counter(m.readErrorsDesc, &m.readErrors)
}
