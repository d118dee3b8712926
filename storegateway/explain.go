package storegateway

import (
	"encoding/json"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/tsblock"
)

// An Explanation tells how a request was answered: which blocks it read, what the plan was and what
// came of it. Its JSON is stable.
type Explanation struct {
	WaitSeconds  float64 `json:"waitSeconds"`  // for admission
	AllowedBytes int64   `json:"allowedBytes"` // that the query may hold
	PeakBytes    int64   `json:"peakBytes"`    // the most that it held at once
	Series       uint64  `json:"series"`       // that were read
	Chunks       uint64  `json:"chunks"`
	Batches      int     `json:"batches"`      // of series
	PlannedBytes int64   `json:"plannedBytes"` // of chunks, before any was fetched

	Read   map[string]ExplainedUsage `json:"read"` // by kind of data, over all blocks
	Blocks []ExplainedBlock          `json:"blocks"`
}

// An ExplainedBlock is what a request did in one block; one that reads a block twice has two.
type ExplainedBlock struct {
	ID           string                    `json:"id"`
	MinTime      int64                     `json:"minTime"` // milliseconds, inclusive
	MaxTime      int64                     `json:"maxTime"` // inclusive
	Batches      int                       `json:"batches"`
	PlannedBytes int64                     `json:"plannedBytes"`
	Postings     int64                     `json:"postings"`     // series that the postings lists named
	OtherShard   int64                     `json:"otherShard"`   // of them, those of other shards, which were not read
	OutsideRange int64                     `json:"outsideRange"` // of them, those without a chunk in the time range
	OtherGroup   int64                     `json:"otherGroup"`   // of them, those of other shards of a grouping, whose chunks were not read
	Read         map[string]ExplainedUsage `json:"read"`
}

// An ExplainedUsage is what reading data of one kind took.
type ExplainedUsage struct {
	Items   int64 `json:"items"`
	Touched int64 `json:"touchedBytes"` // decoded
	Cached  int64 `json:"cachedBytes"`  // of pages that were in the cache
	Fetched int64 `json:"fetchedBytes"` // read from the bucket, or from a local file
	Wasted  int64 `json:"wastedBytes"`  // of them, gaps between ranges that were read as one
	Reads   int64 `json:"reads"`
}

// Explanation returns how the query was answered so far.
func (q *Query) Explanation(wait time.Duration) Explanation {
	s := q.Stats()
	e := Explanation{
		WaitSeconds: wait.Seconds(), AllowedBytes: s.AllowedBytes, PeakBytes: s.PeakBytes,
		Series: s.Series, Chunks: s.Chunks, Batches: s.Batches, PlannedBytes: s.PlannedBytes,
		Read: explainUsage(&s.Read), Blocks: []ExplainedBlock{},
	}
	for _, b := range q.Explain() {
		e.Blocks = append(e.Blocks, ExplainedBlock{
			ID: b.ID.String(), MinTime: b.MinTime, MaxTime: b.MaxTime, Batches: b.Batches, PlannedBytes: b.PlannedBytes,
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
			used[kind] = ExplainedUsage{u.Items, u.Touched, u.Cached, u.Fetched, u.Wasted, u.Reads}
		}
	}
	return used
}

// appendExplain appends the explanation as JSON.
func (q *Query) appendExplain(dst []byte, wait time.Duration) []byte {
	b, err := json.Marshal(q.Explanation(wait))
	if err != nil {
		panic("BUG: storegateway: marshal an explanation: " + err.Error()) // numbers and ids
	}
	return append(dst, b...)
}

// QueryStats are what a query has done.
type QueryStats struct {
	Blocks  int    // that were read; a block counts for each select
	Batches int    // of series
	Series  uint64 // that were returned
	Chunks  uint64 // that belong to them

	PlannedBytes int64 // of chunks, estimated from their references
	PeakBytes    int64 // the most that the query held at once
	AllowedBytes int64 // and the most that it may hold

	Read tsblock.Stats // by kind, over all blocks
}

// Total returns the sum over all kinds of data.
func (s *QueryStats) Total() tsblock.Usage {
	var sum tsblock.Usage
	for _, u := range [...]*tsblock.Usage{
		&s.Read.Table, &s.Read.Postings, &s.Read.Series, &s.Read.Symbols, &s.Read.Hashes, &s.Read.Chunks,
	} {
		sum.Items += u.Items
		sum.Touched += u.Touched
		sum.Cached += u.Cached
		sum.Fetched += u.Fetched
		sum.Wasted += u.Wasted
		sum.Reads += u.Reads
	}
	return sum
}

// BlockStats are what a query has done in one block, for one select.
type BlockStats struct {
	ID               ulid.ULID
	MinTime, MaxTime int64 // of the block in milliseconds, both inclusive
	Batches          int
	PlannedBytes     int64
	Read             tsblock.Stats
}
