package diskcache

import "sync/atomic"

// Stats are the counts of a cache. Counters start at 0 when it is opened.
type Stats struct {
	Capacity int64 // length of the file when all slots have pages
	Bytes    int64 // of it, the table of headers and the slots that have pages
	Entries  int64 // slots that have pages
	Queued   int64 // pages that wait to be written
	Memory   int64 // bytes of tags and queue
	Writable bool  // false after a failed write, until one succeeds

	Hits, Misses uint64 // lookups of pages
	Insertions   uint64 // pages written
	Evictions    uint64 // pages replaced by others
	Removed      uint64 // pages of removed blocks
	Dropped      uint64 // pages not written: the queue was full, or an earlier write failed
	Damaged      uint64 // pages that failed their check when they were read
	Errors       uint64 // failed reads and writes of the file
}

type counts struct {
	entries, queued                                                        atomic.Int64
	hits, misses, insertions, evictions, removed, dropped, damaged, errors atomic.Uint64
}

// Stats returns the counts of the cache.
func (c *Cache) Stats() Stats {
	n := &c.counts
	s := Stats{
		Entries: n.entries.Load(), Queued: n.queued.Load(), Memory: c.Memory(),
		Hits: n.hits.Load(), Misses: n.misses.Load(), Insertions: n.insertions.Load(), Evictions: n.evictions.Load(),
		Removed: n.removed.Load(), Dropped: n.dropped.Load(), Damaged: n.damaged.Load(), Errors: n.errors.Load(),
	}
	if c.tags != nil {
		s.Capacity = pageAt(c.slots, c.slots)
		s.Bytes = pageAt(0, c.slots) + s.Entries*PageSize
		s.Writable = !c.failing.Load()
	}
	return s
}

// Memory returns the bytes of heap that the cache takes: its tags, and the insertions made so far.
func (c *Cache) Memory() int64 {
	return c.memory(min(c.made.Load(), maxQueued))
}

// MaxMemory returns the bound of Memory.
func (c *Cache) MaxMemory() int64 { return c.memory(maxQueued) }

func (c *Cache) memory(insertions int64) int64 {
	const setBytes, tagBytes, insertionBytes = 8, 8, PageSize + 256
	return int64(len(c.tags))*tagBytes + int64(len(c.sets))*setBytes + insertions*insertionBytes
}
