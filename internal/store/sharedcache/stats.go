package sharedcache

import "sync/atomic"

// Stats are the counts of a cache. Counters start at 0 when it is opened.
type Stats struct {
	Queued int64 // bytes that wait to be written
	Memory int64 // bytes of batches, queue and connections

	Hits         uint64 // pages found
	Misses       uint64 // pages that the servers do not have, damaged ones included
	Failed       uint64 // pages whose call failed
	Skipped      uint64 // pages without a call: the server is paused, or all batches were in use
	Damaged      uint64 // values that failed their check: misses
	BytesRead    uint64 // of hits
	Stored       uint64 // pages written
	BytesWritten uint64 // of stored pages
	Dropped      uint64 // pages not written: the queue was full, or the server is paused
	WritesFailed uint64 // pages not written: the call failed, or the server refused the page

	Servers []ServerStats
}

// ServerStats are the counts of one server.
type ServerStats struct {
	Name     string
	Called   bool   // false from the failures that open its circuit breaker until a call succeeds
	Failures uint64 // calls that failed
}

type counts struct {
	queued                                            atomic.Int64
	hits, misses, failed, skipped, damaged, bytesRead atomic.Uint64
	stored, bytesWritten, dropped, writesFailed       atomic.Uint64
}

// Stats returns the counts of the cache.
func (c *Cache) Stats() Stats {
	n := &c.counts
	s := Stats{
		Queued: n.queued.Load(), Memory: c.Memory(),
		Hits: n.hits.Load(), Misses: n.misses.Load(), Failed: n.failed.Load(), Skipped: n.skipped.Load(),
		Damaged: n.damaged.Load(), BytesRead: n.bytesRead.Load(), Stored: n.stored.Load(), BytesWritten: n.bytesWritten.Load(),
		Dropped: n.dropped.Load(), WritesFailed: n.writesFailed.Load(),
	}
	for _, one := range c.servers {
		s.Servers = append(s.Servers, ServerStats{Name: one.name, Called: !one.paused.Load(), Failures: one.failures.Load()})
	}
	return s
}

// Paused returns the number of servers that are not called.
func (s *Stats) Paused() (n int) {
	for i := range s.Servers {
		if !s.Servers[i].Called {
			n++
		}
	}
	return n
}

// Memory returns the bytes of heap that the cache takes: batches and insertions allocated so far, and the most that
// connections take.
func (c *Cache) Memory() int64 { return c.memory(c.batches.count(), c.writes.count()) }

// MaxMemory returns the bound of Memory.
func (c *Cache) MaxMemory() int64 { return c.memory(maxBatches, maxQueued) }

func (c *Cache) memory(batches, insertions int64) int64 {
	const (
		batchBytes     = 33 << 13 // as the allocator rounds them
		insertionBytes = 18 << 10
		serverBytes    = (maxBatches + 1) * (9 << 10) // connections and their buffers
	)
	return batches*batchBytes + insertions*insertionBytes + int64(len(c.servers))*serverBytes
}
