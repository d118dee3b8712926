package storegateway

import (
	"encoding/json"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// An Explanation describes how a request was served: the blocks that it read, its plan, and the actual costs.
// Its JSON is stable.
type Explanation struct {
	WaitSeconds  float64 `json:"wait_seconds"`  // time in the admission queue
	AllowedBytes int64   `json:"allowed_bytes"` // limit of the query
	PeakBytes    int64   `json:"peak_bytes"`    // highest usage
	Series       uint64  `json:"series"`        // series read
	Chunks       uint64  `json:"chunks"`
	Batches      int     `json:"batches"`       // batches of series read
	PlannedBytes int64   `json:"planned_bytes"` // estimated bytes of chunks, before the first fetch

	Read   map[string]ExplainedUsage `json:"read"` // by kind of data, over all blocks
	Blocks []ExplainedBlock          `json:"blocks"`
}

// An ExplainedBlock describes the reads in one block. A request that reads a block twice has two of them.
type ExplainedBlock struct {
	ID           string                    `json:"id"`
	MinTime      int64                     `json:"min_time"`             // milliseconds, inclusive
	MaxTime      int64                     `json:"max_time"`             // inclusive
	Resolution   int64                     `json:"resolution,omitempty"` // milliseconds between the samples of a downsampled block; 0: raw
	Batches      int                       `json:"batches"`
	PlannedBytes int64                     `json:"planned_bytes"`
	Postings     int64                     `json:"postings"`      // series in the postings lists
	OtherShard   int64                     `json:"other_shard"`   // of those, in other shards; not read
	OutsideRange int64                     `json:"outside_range"` // of those, without a chunk in the time range
	OtherGroup   int64                     `json:"other_group"`   // of those, in other shards of a grouping; their chunks were not read
	Read         map[string]ExplainedUsage `json:"read"`
}

// An ExplainedUsage is the cost of reading data of one kind.
type ExplainedUsage struct {
	Items   int64 `json:"items"`
	Touched int64 `json:"touched_bytes"`   // bytes decoded
	Cached  int64 `json:"cached_bytes"`    // bytes of pages found in the cache
	Disk    int64 `json:"disk_bytes"`      // bytes of pages found in the disk cache
	Shared  int64 `json:"memcached_bytes"` // bytes of pages found in the shared cache
	Fetched int64 `json:"fetched_bytes"`   // bytes read from the bucket or from a local file
	Wasted  int64 `json:"wasted_bytes"`    // of disk, shared and fetched bytes, gaps between ranges that were read as one
	Reads   int64 `json:"reads"`
}

// explanation describes the parts of the query that are closed. wait is the time that it waited for
// admission.
func (q *Query) explanation(wait time.Duration) Explanation {
	s := q.Stats()
	e := Explanation{
		WaitSeconds: wait.Seconds(), AllowedBytes: s.AllowedBytes, PeakBytes: s.PeakBytes,
		Series: s.Series, Chunks: s.Chunks, Batches: s.Batches, PlannedBytes: s.PlannedBytes,
		Read: explainUsage(&s.Read), Blocks: []ExplainedBlock{},
	}
	for _, b := range q.Explain() {
		e.Blocks = append(e.Blocks, ExplainedBlock{
			ID: b.ID.String(), MinTime: b.MinTime, MaxTime: b.MaxTime, Resolution: int64(b.Resolution), Batches: b.Batches, PlannedBytes: b.PlannedBytes,
			Postings: b.Read.Refs, OtherShard: b.Read.Foreign, OutsideRange: b.Read.Outside, OtherGroup: b.Read.Dropped,
			Read: explainUsage(&b.Read),
		})
	}
	return e
}

func explainUsage(s *tsblock.Stats) map[string]ExplainedUsage {
	used := make(map[string]ExplainedUsage)
	for kind, u := range map[string]tsblock.Usage{
		"table": s.Table, "postings": s.Postings, "series": s.Series,
		"symbols": s.Symbols, "hashes": s.Hashes, "chunks": s.Chunks,
	} {
		if u != (tsblock.Usage{}) {
			used[kind] = ExplainedUsage{u.Items, u.Touched, u.Cached, u.Disk, u.Shared, u.Fetched, u.Wasted, u.Reads}
		}
	}
	return used
}

// appendExplain appends the explanation as JSON.
func (q *Query) appendExplain(dst []byte, wait time.Duration) []byte {
	b, err := json.Marshal(q.explanation(wait))
	if err != nil {
		panic("BUG: storegateway: marshal an explanation: " + err.Error()) // it contains numbers and ids only
	}
	return append(dst, b...)
}

// QueryStats are the counts of a query.
type QueryStats struct {
	Blocks  int    // blocks read; a block counts once per select
	Batches int    // batches of series
	Series  uint64 // series returned
	Chunks  uint64 // chunks of those series

	PlannedBytes int64 // bytes of chunks, estimated from their references
	PeakBytes    int64 // highest usage
	AllowedBytes int64 // limit of the query

	Read tsblock.Stats // by kind, over all blocks
}

// Total returns the sum over all kinds of data.
func (s *QueryStats) Total() tsblock.Usage { return s.Read.Total() }

// BlockStats are the counts of one select in one block.
type BlockStats struct {
	ID               ulid.ULID
	MinTime, MaxTime int64 // of the block in milliseconds, both inclusive
	Resolution       blocksync.Resolution
	Batches          int
	PlannedBytes     int64
	Read             tsblock.Stats
}
