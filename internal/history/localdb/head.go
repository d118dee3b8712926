package localdb

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/util/compression"
)

// BlockRange is the time range of a block. This process writes no larger ones; the compactor of the bucket
// does.
const BlockRange = 2 * time.Hour

// walSegmentBytes is the size of a file of the write-ahead log, which is truncated by whole files.
const walSegmentBytes = 32 << 20

// blockSegmentBytes is the size of a chunk file of a block. The TSDB allocates the whole file to write a
// block, which fails if less is free.
const blockSegmentBytes = 64 << 20

// OpenHead opens the head and the blocks in dir, and replays the write-ahead log. The database does not
// compact on its own; when it is compacted, it deletes the blocks that expired returns. The caller locks the
// directory.
func OpenHead(dir string, log *slog.Logger, metrics prometheus.Registerer, expired tsdb.BlocksToDeleteFunc) (*tsdb.DB, error) {
	o := tsdb.DefaultOptions()
	o.NoLockfile = true
	o.WALSegmentSize = walSegmentBytes
	o.WALCompression = compression.Snappy
	o.MinBlockDuration = BlockRange.Milliseconds()
	o.MaxBlockDuration = BlockRange.Milliseconds()
	o.MaxBlockChunkSegmentSize = blockSegmentBytes
	o.EnableOverlappingCompaction = false
	o.FloatChunkEncoding = chunkenc.EncXOR // read by Thanos and by package storegateway
	o.EnableSTAsZeroSample = true
	o.HeadChunksWriteBufferSize = chunks.MinWriteBufferSize // the chunks in the buffer are in memory twice
	o.HeadChunksWriteQueueSize = 0                          // chunks are written as they are cut
	o.BlocksToDelete = expired
	// Archive.maintain compacts and writes chunks, and recovers from panics.
	o.BlockReloadInterval = math.MaxInt64
	db, err := tsdb.Open(dir, quiet(log), metrics, o, nil)
	if err != nil {
		return nil, fmt.Errorf("open history in %s: %w", dir, err)
	}
	db.DisableCompactions()
	return db, nil
}

// quiet logs only the database's warnings and errors.
func quiet(log *slog.Logger) *slog.Logger {
	return slog.New(levelHandler{log.Handler()}).With("part", "tsdb")
}

// LastTime returns the time of the newest sample, in milliseconds; 0 if there is none.
func LastTime(db *tsdb.DB) int64 {
	last := int64(0)
	for _, m := range db.BlockMetas() {
		last = max(last, m.MaxTime)
	}
	if t := db.Head().MaxTime(); t != math.MinInt64 {
		last = max(last, t)
	}
	return last
}

// WholeStart returns the time in milliseconds from which on the database has all samples without a gap: after
// a block that was set aside, older samples are read from the bucket. It returns math.MaxInt64 if the head is empty:
// there may have been blocks after those that are left.
func (d *Database) WholeStart() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	metas := slices.SortedFunc(slices.Values(d.db.BlockMetas()), func(a, b tsdb.BlockMeta) int { return cmp.Compare(b.MaxTime, a.MaxTime) })
	start := d.headStart()
	for _, m := range metas {
		if start == math.MaxInt64 || start-m.MaxTime > maxBlockGap.Milliseconds() {
			break
		}
		start = min(start, m.MinTime)
	}
	return start
}

// headStart returns the time of the first sample of the head; math.MaxInt64 if there is none. The time that the head has is that of the
// end of the newest block, even where the block after it is missing. Without a gap between them, few series are read; the result with
// one is kept, as no earlier samples are appended.
func (d *Database) headStart() int64 {
	head := d.db.Head()
	least := head.MinTime()
	if d.first.db == d.db && d.first.least == least {
		return d.first.time
	}
	ix, err := head.Index()
	if err != nil {
		return least
	}
	defer func() { _ = ix.Close() }() // of memory
	name, value := index.AllPostingsKey()
	all, err := ix.Postings(context.Background(), name, value)
	if err != nil {
		return least
	}
	first := int64(math.MaxInt64)
	var parts []chunks.Meta
	var names labels.ScratchBuilder
	for all.Next() {
		// A series that was removed meanwhile has no samples.
		if err := ix.Series(all.At(), &names, &parts); err != nil || len(parts) == 0 {
			continue
		}
		if first = min(first, max(parts[0].MinTime, least)); first-least <= maxBlockGap.Milliseconds() {
			return first
		}
	}
	if first != math.MaxInt64 {
		d.first.db, d.first.least, d.first.time = d.db, least, first
	}
	return first
}

// maxBlockGap exceeds the time between two blocks of a process that was not stopped: it writes a sample every
// minute.
const maxBlockGap = 2 * time.Minute

// Start returns the time in milliseconds from which on the database has samples; math.MaxInt64 if it is
// empty.
func Start(db *tsdb.DB) int64 {
	start := db.Head().MinTime()
	for _, m := range db.BlockMetas() {
		start = min(start, m.MinTime)
	}
	return start
}
