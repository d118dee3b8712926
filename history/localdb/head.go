package localdb

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/compression"
)

// BlockRange is the time that a block spans. The compactor of the bucket makes larger ones, this process does not.
const BlockRange = 2 * time.Hour

// walSegmentBytes is how large a file of the write-ahead log becomes; a log is cut at its ends.
const walSegmentBytes = 32 << 20

// blockSegmentBytes is the size of a chunk file of a block. The TSDB allocates it whole to write a block, which
// fails where less is free.
const blockSegmentBytes = 64 << 20

// OpenHead opens the head and the blocks beside it in dir, and replays the write-ahead log. The
// database does not compact on its own; when it does, it deletes the blocks that expired names.
// Locking the directory is the caller's.
func OpenHead(dir string, log *slog.Logger, metrics prometheus.Registerer, expired tsdb.BlocksToDeleteFunc) (*tsdb.DB, error) {
	o := tsdb.DefaultOptions()
	o.NoLockfile = true
	o.WALSegmentSize = walSegmentBytes
	o.WALCompression = compression.Snappy
	o.MinBlockDuration = BlockRange.Milliseconds()
	o.MaxBlockDuration = BlockRange.Milliseconds()
	o.MaxBlockChunkSegmentSize = blockSegmentBytes
	o.EnableOverlappingCompaction = false
	o.FloatChunkEncoding = chunkenc.EncXOR // what Thanos and our own store gateway read
	o.EnableSTAsZeroSample = true
	o.HeadChunksWriteBufferSize = chunks.MinWriteBufferSize // the chunks in it are held in memory once more
	o.HeadChunksWriteQueueSize = 0                          // chunks are written as they are cut
	o.BlocksToDelete = expired
	// Archive.maintain compacts and writes chunks, where a panic can be recovered.
	o.BlockReloadInterval = math.MaxInt64
	db, err := tsdb.Open(dir, quiet(log), metrics, o, nil)
	if err != nil {
		return nil, fmt.Errorf("open history in %s: %w", dir, err)
	}
	db.DisableCompactions()
	return db, nil
}

// quiet passes the database's warnings and errors on; of its progress nobody needs to hear.
func quiet(log *slog.Logger) *slog.Logger {
	return slog.New(levelHandler{log.Handler()}).With("part", "tsdb")
}

// LastTime is the time of the newest sample, in milliseconds; 0 when there is none.
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

// WholeStart returns the time from which on the database has everything without a gap: after a block that
// was set aside, the bucket is read for what is older. math.MaxInt64 when the database has nothing.
func WholeStart(db *tsdb.DB) int64 {
	metas := slices.SortedFunc(slices.Values(db.BlockMetas()), func(a, b tsdb.BlockMeta) int { return cmp.Compare(b.MaxTime, a.MaxTime) })
	start := db.Head().MinTime()
	for _, m := range metas {
		if start != math.MaxInt64 && start-m.MaxTime > maxBlockGap.Milliseconds() {
			break
		}
		start = min(start, m.MinTime)
	}
	return start
}

// maxBlockGap is more than the time between two blocks of a process that was not stopped: it writes a sample every minute.
const maxBlockGap = 2 * time.Minute

// Start is the time from which on the database has samples, in milliseconds; math.MaxInt64 when it has nothing.
func Start(db *tsdb.DB) int64 {
	start := db.Head().MinTime()
	for _, m := range db.BlockMetas() {
		start = min(start, m.MinTime)
	}
	return start
}
