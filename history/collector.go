package history

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/history/localdb"
	"github.com/taredb/tare/stmtstats"
)

// A tableCollector answers for a table, with as many series whatever it holds.
type tableCollector struct {
	table *stmtstats.Table

	digests, tableBytes, freePages, admitted, evicted, untracked *prometheus.Desc
}

func metricDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tare_history_"+name, help, nil, nil)
}

// NewTableCollector returns the metrics of a table.
func NewTableCollector(t *stmtstats.Table) prometheus.Collector {
	return &tableCollector{
		table:      t,
		digests:    metricDesc("digests", "Keys of digest, schema, user and backend in the table."),
		tableBytes: metricDesc("table_bytes", "Memory of the digest table, constant."),
		freePages:  metricDesc("table_free_pages", "Unused table pages for buckets and texts."),
		admitted:   metricDesc("digests_admitted_total", "Keys admitted to the table."),
		evicted:    metricDesc("digests_evicted_total", "Keys evicted from the table; their totals continue as digest=\"evicted\"."),
		untracked:  metricDesc("untracked_calls_total", "Calls of statements not in the table, counted as digest=\"other\"."),
	}
}

// Describe implements prometheus.Collector.
func (c *tableCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *tableCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.table.Stats()
	gauge(ch, c.digests, float64(st.Digests))
	gauge(ch, c.tableBytes, float64(st.Bytes))
	gauge(ch, c.freePages, float64(st.FreePages))
	counter(ch, c.admitted, st.Admitted)
	counter(ch, c.evicted, st.Evictions)
	counter(ch, c.untracked, st.Untracked)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v uint64) {
	counterOf(ch, d, float64(v))
}

func counterOf(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
}

// An archiveCollector answers for an archive, with as many series whatever it holds.
type archiveCollector struct {
	archive *Archive

	rounds, samples, failures, keys, roundSeconds, ahead *prometheus.Desc
	instances                                            *prometheus.Desc
	headSeries, headChunks, diskBytes, blocks, oldest    *prometheus.Desc
	lostSeconds, stopped                                 *prometheus.Desc
	ledgerRounds, unexplainedSamples, unexplainedCalls   *prometheus.Desc
	shipped, shippedBytes, shipFailures, unshipped, lost *prometheus.Desc
	marked, deleted, deletedRollups, retainFailures      *prometheus.Desc
	pending, refused, bucketBytes                        *prometheus.Desc
	rollups, rollupBytes, rollupFailures, rolledUntil    *prometheus.Desc
}

// NewArchiveCollector returns the metrics of an archive; those of its table are NewTableCollector's.
func NewArchiveCollector(a *Archive) prometheus.Collector {
	return &archiveCollector{
		archive: a,

		rounds:             metricDesc("rounds_total", "Rounds in which the table was written to the head."),
		samples:            metricDesc("samples_total", "Samples appended to the head."),
		failures:           metricDesc("write_failures_total", "Keys and commits that could not be written; they are retried in the next round."),
		keys:               metricDesc("written_digests", "Keys written by the last round: changed ones, and those not written for a minute."),
		roundSeconds:       metricDesc("round_seconds", "How long the last round took, with its pauses between commits."),
		ahead:              metricDesc("clock_ahead_seconds", "How far the latest sample was ahead of the clock in the last round: above 0 after the clock was set back."),
		instances:          metricDesc("instance", "Number of the instance label that samples have: above 1 after the clock was set back by more than --history-max-ahead."),
		lostSeconds:        metricDesc("lost_seconds_total", "Length of the ranges without samples after failed writes, across restarts."),
		stopped:            metricDesc("stopped", "1 while nothing is written because of a failed write or a full disk."),
		ledgerRounds:       metricDesc("ledger_rounds", "Rounds of the ledger that were compared with the series."),
		unexplainedSamples: metricDesc("unexplained_samples", "Samples of the rounds in the ledger that the series lack or have in excess, as of the last self-check."),
		unexplainedCalls:   metricDesc("unexplained_calls", "Calls by which the increases of tare_queries_total differ from the ledger, as of the last self-check."),
		headSeries:         metricDesc("head_series", "Series in the head."),
		headChunks:         metricDesc("head_bytes", "Bytes of the head's write-ahead log and chunks on local disk."),
		diskBytes:          metricDesc("local_block_bytes", "Bytes of blocks on local disk."),
		blocks:             metricDesc("local_blocks", "Blocks on local disk."),
		oldest:             metricDesc("local_start_seconds", "Start of the range that is entirely on local disk, in seconds since 1970; 0 before the first sample."),
		shipped:            metricDesc("blocks_shipped_total", "Blocks uploaded to the bucket and compared."),
		shippedBytes:       metricDesc("shipped_bytes_total", "Bytes of blocks uploaded to the bucket."),
		shipFailures:       metricDesc("ship_failures_total", "Failed block uploads; they are retried."),
		unshipped:          metricDesc("unshipped_blocks", "Local blocks not uploaded yet."),
		marked:             metricDesc("retention_marked_blocks_total", "Blocks in the bucket that were marked for deletion."),
		deleted:            metricDesc("retention_deleted_blocks_total", "Blocks deleted from the bucket."),
		deletedRollups:     metricDesc("retention_deleted_rollups_total", "Rollups deleted from the bucket."),
		retainFailures:     metricDesc("retention_failures_total", "Failed or refused runs of the bucket's retention; they are retried."),
		pending:            metricDesc("retention_pending_blocks", "Blocks in the bucket that wait for their deletion; in a dry run, those that would be deleted."),
		bucketBytes:        metricDesc("retention_bytes", "Bytes of this gateway's blocks and rollups in the bucket, as of the last run of its retention; 0 without --history-retention-bytes."),
		refused:            metricDesc("retention_refused", "1 while nothing is deleted because a compactor owns the bucket."),
		rollups:            metricDesc("rollups_made_total", "Hourly and daily rollups created."),
		rollupBytes:        metricDesc("rollup_bytes", "Bytes of rollups on local disk."),
		rollupFailures:     metricDesc("rollup_failures_total", "Failed attempts to create rollups; they are retried."),
		rolledUntil:        metricDesc("rolled_up_until_seconds", "End of the range covered by rollups, in seconds since 1970; 0 before the first."),
		lost:               metricDesc("lost_blocks_total", "Blocks deleted before they were uploaded, because local blocks reached their limit."),
	}
}

// Describe implements prometheus.Collector.
func (c *archiveCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *archiveCollector) Collect(ch chan<- prometheus.Metric) {
	a := c.archive
	in := a.current()
	n := a.sums()
	counter(ch, c.rounds, n.rounds)
	counter(ch, c.samples, n.samples)
	counter(ch, c.failures, n.failures)
	gauge(ch, c.keys, float64(in.writer.counts.lastWritten.Load()))
	gauge(ch, c.roundSeconds, time.Duration(in.writer.counts.lastNanos.Load()).Seconds())
	gauge(ch, c.ahead, a.Ahead().Seconds())
	gauge(ch, c.instances, float64(in.number))

	counterOf(ch, c.lostSeconds, a.lostSeconds())
	gauge(ch, c.stopped, flag(in.stopped.Load()))

	var samples, calls uint64
	for _, d := range a.Unexplained() {
		samples += d.Samples
		calls += d.Calls
	}
	gauge(ch, c.ledgerRounds, float64(n.compared))
	gauge(ch, c.unexplainedSamples, float64(samples))
	gauge(ch, c.unexplainedCalls, float64(calls))

	gauge(ch, c.headSeries, float64(n.headSeries))
	gauge(ch, c.headChunks, float64(n.headBytes))
	gauge(ch, c.diskBytes, float64(n.blockBytes))
	gauge(ch, c.blocks, float64(n.blocks))
	start := localdb.WholeStart(in.db.Current())
	if start == math.MaxInt64 {
		start = 0
	}
	gauge(ch, c.oldest, float64(start)/1000)
	gauge(ch, c.unshipped, float64(n.unshipped))
	counter(ch, c.shipped, n.shipped.blocks)
	counter(ch, c.shippedBytes, n.shipped.bytes)
	counter(ch, c.shipFailures, n.shipped.failures)
	counter(ch, c.lost, a.lost.Load())

	retain := &a.retain.counts
	counter(ch, c.marked, retain.marked.Load())
	counter(ch, c.deleted, retain.deleted.Load())
	counter(ch, c.deletedRollups, retain.rollups.Load())
	counter(ch, c.retainFailures, retain.failures.Load())
	gauge(ch, c.pending, float64(retain.pending.Load()))
	gauge(ch, c.bucketBytes, float64(retain.bytes.Load()))
	gauge(ch, c.refused, flag(retain.refused.Load()))

	counter(ch, c.rollups, n.rollups)
	counter(ch, c.rollupFailures, n.rollupFailures)
	gauge(ch, c.rollupBytes, float64(n.rollupBytes))
	until := in.rollups.Until()
	if until.IsZero() {
		until = time.Unix(0, 0)
	}
	gauge(ch, c.rolledUntil, float64(until.Unix()))
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// instanceSums are the counts of all instances.
type instanceSums struct {
	rounds, samples, failures   uint64
	compared, blocks, unshipped int
	headSeries                  uint64
	headBytes, blockBytes       int64
	shipped                     shipCounts
	rollups, rollupFailures     uint64
	rollupBytes                 int64
}

func (a *Archive) sums() (n instanceSums) {
	for _, in := range a.all() {
		w := &in.writer.counts
		n.rounds += w.rounds.Load()
		n.samples += w.samples.Load()
		n.failures += w.failures.Load()
		n.compared += in.ledger.compared()
		db := in.db.Current()
		n.headSeries += db.Head().NumSeries()
		n.headBytes += db.Head().Size()
		for _, b := range db.Blocks() {
			n.blocks++
			n.blockBytes += b.Size()
			if _, ok := in.shipper.since(b.Meta().ULID); !ok {
				n.unshipped++
			}
		}
		in.shipper.mu.Lock()
		n.shipped.blocks += in.shipper.counts.blocks
		n.shipped.bytes += in.shipper.counts.bytes
		n.shipped.failures += in.shipper.counts.failures
		in.shipper.mu.Unlock()
		n.rollups += uint64(in.rollups.Made.Load())
		n.rollupFailures += uint64(in.rollups.Failures.Load())
		n.rollupBytes += in.rollups.Bytes.Load()
	}
	return n
}
