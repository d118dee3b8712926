package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
)

// A retention selects the local blocks that are no longer needed.
type retention struct {
	age   time.Duration // 0: no limit
	bytes int64         // of all blocks; 0: no limit

	// safe reports whether the gateway serves the block from the bucket.
	safe func(ulid.ULID) bool

	// rolled reports whether all samples of the block are in rollups.
	rolled func(tsdb.BlockMeta) bool

	past   func() bool  // reports whether there will be no newer blocks: then any age is expired; nil: no
	others func() int64 // bytes of blocks that count too, but are never returned; nil: none
}

// expired returns the blocks to delete. Age is relative to the newest block, so that a jumping clock deletes
// nothing. A block that is not served from the bucket, or not in rollups, is kept beyond its age. Only the
// limit in bytes, which prevents a full disk, deletes it.
func (r retention) expired(blocks []*tsdb.Block) map[ulid.ULID]struct{} {
	newest := int64(math.MinInt64)
	var total int64
	for _, b := range blocks {
		newest = max(newest, b.Meta().MaxTime)
		total += b.Size()
	}
	if r.others != nil {
		total += r.others()
	}
	past := r.past != nil && r.past()
	out := make(map[ulid.ULID]struct{})
	drop := func(b *tsdb.Block) {
		out[b.Meta().ULID] = struct{}{}
		total -= b.Size()
	}
	oldestFirst := slices.SortedFunc(slices.Values(blocks), func(a, b *tsdb.Block) int {
		return cmp.Compare(a.MinTime(), b.MinTime())
	})
	for _, b := range oldestFirst {
		m := b.Meta()
		old := past || r.age > 0 && newest-m.MaxTime >= r.age.Milliseconds()
		if old && r.safe(m.ULID) && r.rolled(m) {
			drop(b)
		}
	}
	for _, b := range oldestFirst {
		m := b.Meta()
		if _, gone := out[m.ULID]; gone || r.bytes == 0 || total <= r.bytes {
			continue
		}
		drop(b)
	}
	return out
}
