package storegateway

import (
	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/tsblock"
)

// QueryStats are what a query has done.
type QueryStats struct {
	Blocks  int    // that were read; a block counts for each select
	Batches int    // of series
	Series  uint64 // that were answered
	Chunks  uint64 // that belong to them

	PlannedBytes int64 // of chunks, as their references told
	PeakBytes    int64 // the most that the query held at once
	AllowedBytes int64 // and what it may hold

	Read tsblock.Stats // by kind, over all blocks
}

// total returns the sum over all kinds of data.
func (s *QueryStats) total() tsblock.Usage {
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
