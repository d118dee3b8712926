package history

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A collector answers for a table and its archive, with as many series whatever they hold.
type collector struct {
	table   *Table
	archive *Archive

	digests, tableBytes, freePages, admitted, evicted, untracked *prometheus.Desc

	rounds, samples, failures, keys, roundSeconds, ahead *prometheus.Desc
	headSeries, headChunks, diskBytes, blocks, oldest    *prometheus.Desc
	shipped, shippedBytes, shipFailures, unshipped, lost *prometheus.Desc
}

// NewCollector returns the metrics of a table and of the archive that writes it.
func NewCollector(t *Table, a *Archive) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tare_history_"+name, help, labels, nil)
	}
	return &collector{
		table: t, archive: a,
		digests:    desc("digests", "Keys of digest, schema, user and backend that are counted apart."),
		tableBytes: desc("table_bytes", "Memory of the table of digests, which does not change."),
		freePages:  desc("table_free_pages", "Pages of the table for buckets and texts that nobody uses."),
		admitted:   desc("digests_admitted_total", "Keys that found a place in the table."),
		evicted:    desc("digests_evicted_total", "Keys that made room for others; their totals count on as digest=\"evicted\"."),
		untracked:  desc("untracked_calls_total", "Calls of statements that had no place in the table; they count as digest=\"other\"."),

		rounds:       desc("rounds_total", "Times that the table was written to the head."),
		samples:      desc("samples_total", "Samples that were appended to the head."),
		failures:     desc("write_failures_total", "Keys and commits that could not be written; the next round writes them again."),
		keys:         desc("written_digests", "Keys that the last round wrote: what had changed, or not been written for a minute."),
		roundSeconds: desc("round_seconds", "How long the last round took, its pauses left out."),
		ahead:        desc("clock_ahead_seconds", "How far the newest sample was ahead of the clock in the last round: more than 0 after the clock was set back."),
		headSeries:   desc("head_series", "Series in the head."),
		headChunks:   desc("head_bytes", "Bytes of the head's write-ahead log and chunks on local disk."),
		diskBytes:    desc("local_block_bytes", "Bytes of blocks on local disk."),
		blocks:       desc("local_blocks", "Blocks on local disk."),
		oldest:       desc("local_start_seconds", "Time from which on all is on local disk, in seconds since 1970; 0 before the first sample."),
		shipped:      desc("blocks_shipped_total", "Blocks that were copied to the bucket and compared."),
		shippedBytes: desc("shipped_bytes_total", "Bytes of these blocks."),
		shipFailures: desc("ship_failures_total", "Times that a block could not be shipped; it is tried again."),
		unshipped:    desc("unshipped_blocks", "Blocks on local disk that the bucket does not have."),
		lost:         desc("lost_blocks_total", "Blocks that were deleted without being in the bucket, as local blocks had come to their limit."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	counter := func(d *prometheus.Desc, v uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	st := c.table.Stats()
	gauge(c.digests, float64(st.Digests))
	gauge(c.tableBytes, float64(st.Bytes))
	gauge(c.freePages, float64(st.FreePages))
	counter(c.admitted, st.Admitted)
	counter(c.evicted, st.Evictions)
	counter(c.untracked, st.Untracked)

	w := &c.archive.writer.counts
	counter(c.rounds, w.rounds.Load())
	counter(c.samples, w.samples.Load())
	counter(c.failures, w.failures.Load())
	gauge(c.keys, float64(w.lastWritten.Load()))
	gauge(c.roundSeconds, time.Duration(w.lastNanos.Load()).Seconds())
	gauge(c.ahead, max(0, time.Duration(w.ahead.Load())*time.Millisecond).Seconds())

	db, ship := c.archive.db, c.archive.shipper
	var bytes int64
	unshipped := 0
	blocks := db.Blocks()
	for _, b := range blocks {
		bytes += b.Size()
		if _, ok := ship.since(b.Meta().ULID); !ok {
			unshipped++
		}
	}
	gauge(c.headSeries, float64(db.Head().NumSeries()))
	gauge(c.headChunks, float64(db.Head().Size()))
	gauge(c.diskBytes, float64(bytes))
	gauge(c.blocks, float64(len(blocks)))
	start := localStart(db)
	if start == math.MaxInt64 {
		start = 0
	}
	gauge(c.oldest, float64(start)/1000)
	gauge(c.unshipped, float64(unshipped))
	ship.mu.Lock()
	counts := ship.counts
	ship.mu.Unlock()
	counter(c.shipped, counts.blocks)
	counter(c.shippedBytes, counts.bytes)
	counter(c.shipFailures, counts.failures)
	counter(c.lost, c.archive.lost.Load())
}
