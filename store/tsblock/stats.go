package tsblock

// Stats are the counts of a Reader, by kind of data.
type Stats struct {
	Table    Usage // values of the postings offset table
	Postings Usage // postings lists
	Series   Usage // series entries
	Symbols  Usage
	Hashes   Usage // series hashes
	Chunks   Usage

	Refs    int64 // series in the postings lists
	Foreign int64 // of those, series of other shards; not read
	Outside int64 // series read that have no chunk in the time range
	Dropped int64 // series read for which Keep returned false
}

// Usage counts items of one kind, and their bytes.
type Usage struct {
	Items   int64 // items decoded
	Touched int64 // bytes decoded
	Cached  int64 // bytes of pages found in the cache
	Disk    int64 // bytes of pages found in the disk cache
	Shared  int64 // bytes of pages found in the shared cache
	Fetched int64 // bytes read from the bucket or from a local file
	Wasted  int64 // bytes fetched, or read from the disk cache or the shared cache, that were not requested: gaps between ranges that were read as one
	Reads   int64 // ranges read
}

// Add adds the counts of other.
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

// Total returns the sum over all kinds of data.
func (s *Stats) Total() (sum Usage) {
	for _, u := range [...]*Usage{&s.Table, &s.Postings, &s.Series, &s.Symbols, &s.Hashes, &s.Chunks} {
		sum.add(u)
	}
	return sum
}

func (u *Usage) add(other *Usage) {
	u.Items += other.Items
	u.Touched += other.Touched
	u.Cached += other.Cached
	u.Disk += other.Disk
	u.Shared += other.Shared
	u.Fetched += other.Fetched
	u.Wasted += other.Wasted
	u.Reads += other.Reads
}
