package history

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A collector exports the metrics of a part of the history, a fixed number of series. All values of a scrape
// are computed from one T.
type collector[T any] struct {
	read    func() T
	metrics []metric[T]
}

// A metric is one value of a T.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

func gauge[T any](name, help string, value func(T) float64) metric[T] {
	return metric[T]{prometheus.NewDesc("tare_history_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter[T any](name, help string, value func(T) float64) metric[T] {
	return metric[T]{prometheus.NewDesc("tare_history_"+name, help, nil, nil), prometheus.CounterValue, value}
}

// Describe implements prometheus.Collector.
func (c *collector[T]) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector[T]) Collect(ch chan<- prometheus.Metric) {
	of := c.read()
	for _, m := range c.metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(of))
	}
}

// NewTableCollector returns a collector of a table's metrics.
func NewTableCollector(t *stmtstats.Table) prometheus.Collector {
	return &collector[stmtstats.Stats]{t.Stats, []metric[stmtstats.Stats]{
		gauge("digests", "Keys of digest, schema, user and backend in the table.", func(st stmtstats.Stats) float64 { return float64(st.Digests) }),
		gauge("table_bytes", "Memory of the digest table, constant.", func(st stmtstats.Stats) float64 { return float64(st.Bytes) }),
		gauge("table_free_pages", "Unused table pages for buckets and texts.", func(st stmtstats.Stats) float64 { return float64(st.FreePages) }),
		counter("digests_admitted_total", "Keys admitted to the table.", func(st stmtstats.Stats) float64 { return float64(st.Admitted) }),
		counter("digests_evicted_total", "Keys evicted from the table; their totals continue as digest=\"evicted\".", func(st stmtstats.Stats) float64 { return float64(st.Evictions) }),
		counter("untracked_calls_total", "Calls of statements not in the table, counted as digest=\"other\".", func(st stmtstats.Stats) float64 { return float64(st.Untracked) }),
	}}
}

// NewArchiveCollector returns a collector of an archive's metrics, without those of its table.
func NewArchiveCollector(a *Archive) prometheus.Collector {
	retain := &a.retain.counts
	return &collector[*archiveSums]{a.sums, []metric[*archiveSums]{
		counter("rounds_total", "Rounds in which the table was written to the head.", func(n *archiveSums) float64 { return float64(n.rounds) }),
		counter("samples_total", "Samples appended to the head.", func(n *archiveSums) float64 { return float64(n.samples) }),
		counter("write_failures_total", "Keys and commits that could not be written; retried in the next round.", func(n *archiveSums) float64 { return float64(n.failures) }),
		gauge("written_digests", "Keys written by the last round.", func(n *archiveSums) float64 { return float64(n.written) }),
		gauge("round_seconds", "How long the last round took, with its pauses between commits.", func(n *archiveSums) float64 { return n.round.Seconds() }),
		gauge("clock_ahead_seconds", "How far samples are ahead of a clock that was set back.", func(*archiveSums) float64 { return a.Ahead().Seconds() }),
		gauge("instance", "Number of the instance label: above 1 after the clock was set back beyond option history-max-ahead.", func(n *archiveSums) float64 { return float64(n.number) }),
		counter("lost_seconds_total", "Length of the ranges without samples after failed writes.", func(*archiveSums) float64 { return a.lostSeconds() }),
		gauge("stopped", "1 while nothing is written because of a failed write or a full disk.", func(n *archiveSums) float64 { return flag(n.stopped) }),
		counter("ledger_rounds_total", "Rounds of the ledger that were compared with the series.", func(n *archiveSums) float64 { return float64(n.compared) }),
		gauge("unexplained_samples", "Samples missing or in excess, by the last self-check.", func(n *archiveSums) float64 { return float64(n.unexplained.Samples) }),
		gauge("unexplained_calls", "Calls by which tare_queries_total differs from the ledger.", func(n *archiveSums) float64 { return float64(n.unexplained.Calls) }),
		gauge("head_series", "Series in the head.", func(n *archiveSums) float64 { return float64(n.headSeries) }),
		gauge("head_bytes", "Bytes of the head's write-ahead log and chunks on local disk.", func(n *archiveSums) float64 { return float64(n.headBytes) }),
		gauge("local_block_bytes", "Bytes of blocks on local disk.", func(n *archiveSums) float64 { return float64(n.blockBytes) }),
		gauge("local_blocks", "Blocks on local disk.", func(n *archiveSums) float64 { return float64(n.blocks) }),
		gauge("local_start_seconds", "Start of the range that is entirely on local disk; 0 before the first sample.", func(n *archiveSums) float64 { return n.start }),
		gauge("unshipped_blocks", "Local blocks not uploaded yet.", func(n *archiveSums) float64 { return float64(n.unshipped) }),
		counter("blocks_shipped_total", "Blocks uploaded to the bucket and compared.", func(n *archiveSums) float64 { return float64(n.shipped.blocks) }),
		counter("shipped_bytes_total", "Bytes of blocks uploaded to the bucket.", func(n *archiveSums) float64 { return float64(n.shipped.bytes) }),
		counter("ship_failures_total", "Failed block uploads; retried.", func(n *archiveSums) float64 { return float64(n.shipped.failures) }),
		counter("lost_blocks_total", "Blocks deleted at the limit of local blocks before they were uploaded.", func(*archiveSums) float64 { return float64(a.lost.Load()) }),
		counter("retention_marked_blocks_total", "Blocks in the bucket that were marked for deletion.", func(n *archiveSums) float64 { return float64(retain.marked.Load()) }),
		counter("retention_deleted_blocks_total", "Blocks deleted from the bucket.", func(n *archiveSums) float64 { return float64(retain.deleted.Load()) }),
		counter("retention_deleted_rollups_total", "Rollups deleted from the bucket.", func(n *archiveSums) float64 { return float64(retain.rollups.Load()) }),
		counter("retention_failures_total", "Failed or refused runs of the retention; retried.", func(n *archiveSums) float64 { return float64(retain.failures.Load()) }),
		gauge("retention_pending_blocks", "Blocks in the bucket that wait for their deletion, in a dry run too.", func(n *archiveSums) float64 { return float64(retain.pending.Load()) }),
		gauge("retention_bytes", "Bytes of this gateway's blocks and rollups in the bucket; 0 without option history-retention-bytes.", func(n *archiveSums) float64 { return float64(retain.bytes.Load()) }),
		gauge("retention_refused", "1 while nothing is deleted because a compactor owns the bucket.", func(n *archiveSums) float64 { return flag(retain.refused.Load()) }),
		counter("rollups_made_total", "Hourly and daily rollups created.", func(n *archiveSums) float64 { return float64(n.rollups) }),
		counter("rollup_failures_total", "Failed attempts to create rollups; retried.", func(n *archiveSums) float64 { return float64(n.rollupFailures) }),
		gauge("rollup_bytes", "Bytes of rollups on local disk.", func(n *archiveSums) float64 { return float64(n.rollupBytes) }),
		gauge("rolled_up_until_seconds", "End of the range covered by rollups; 0 before the first.", func(n *archiveSums) float64 { return n.rolledUntil }),
	}}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// archiveSums has the counts of all instances, and the gauges of the current one.
type archiveSums struct {
	rounds, samples, failures uint64
	compared                  uint64
	blocks, unshipped         int
	headSeries                uint64
	headBytes, blockBytes     int64
	shipped                   shipCounts
	rollups, rollupFailures   uint64
	rollupBytes               int64
	unexplained               Difference

	number, written    int64
	round              time.Duration
	stopped            bool
	start, rolledUntil float64 // seconds since 1970
}

func (a *Archive) sums() *archiveSums {
	in := a.current()
	if in == nil {
		return &archiveSums{stopped: true}
	}
	n := &archiveSums{
		number: int64(in.number), written: in.writer.counts.lastWritten.Load(), round: time.Duration(in.writer.counts.lastNanos.Load()), stopped: in.stopped.Load(),
	}
	if start := in.db.WholeStart(); start != math.MaxInt64 {
		n.start = float64(start) / 1000
	}
	if until := in.rollups.Until(); !until.IsZero() {
		n.rolledUntil = float64(until.Unix())
	}
	for _, d := range a.Unexplained() {
		n.unexplained.add(d)
	}
	for _, in := range a.all() {
		w := &in.writer.counts
		n.rounds += w.rounds.Load()
		n.samples += w.samples.Load()
		n.failures += w.failures.Load()
		n.compared += in.ledger.compared.Load()
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
