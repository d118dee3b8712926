package tsblock

// Stats are what a Reader has done, by kind of what it read.
type Stats struct {
	Table    Usage // values of the postings offset table
	Postings Usage // postings lists
	Series   Usage // series entries
	Symbols  Usage
	Hashes   Usage // series hashes
	Chunks   Usage

	Refs    int64 // series that the postings lists named
	Foreign int64 // series of other shards, which were not read
	Outside int64 // series read that had no chunk in the time range
	Dropped int64 // series read that the query did not keep
}

// Usage counts items of one kind, and the bytes that they took.
type Usage struct {
	Items   int64 // decoded
	Touched int64 // bytes decoded
	Cached  int64 // bytes of the pages that were in the cache
	Fetched int64 // bytes read from the bucket, or from a local file
	Wasted  int64 // bytes of them that nobody asked for: gaps between ranges that were read as one
	Reads   int64 // ranges read
}

// Add adds what other counts.
func (s *Stats) Add(other *Stats) {
	s.Table.add(&other.Table)
	s.Postings.add(&other.Postings)
	s.Series.add(&other.Series)
	s.Symbols.add(&other.Symbols)
	s.Hashes.add(&other.Hashes)
	s.Chunks.add(&other.Chunks)
	s.Refs += other.Refs
	s.Foreign += other.Foreign
	s.Outside += other.Outside
	s.Dropped += other.Dropped
}

func (u *Usage) add(other *Usage) {
	u.Items += other.Items
	u.Touched += other.Touched
	u.Cached += other.Cached
	u.Fetched += other.Fetched
	u.Wasted += other.Wasted
	u.Reads += other.Reads
}
