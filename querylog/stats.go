package querylog

// Stats are a Logger's counters.
type Stats struct {
	Boot string
	Seq  uint64 // of the last record

	// Sinks has one entry per sink, then, if there is a ring, one for the ring and one, "http", for all
	// readers of ServeHTTP together.
	Sinks []SinkStats

	Readers int // current readers of ServeHTTP

	// Held is the number of entries that the limit per digest suppresses and will add to the factor of the
	// digest's next line; Unaccounted is the number suppressed for digests evicted from its table, which no
	// line's factor includes.
	Held, Unaccounted uint64
}

// SinkStats are one sink's counters. Written + Dropped = Offered once the queue has been written, and always
// after Close.
type SinkStats struct {
	Name        string
	Offered     uint64 // records
	Written     uint64 // records in the output
	Dropped     uint64 // records that are lost to this sink
	Bytes       uint64 // bytes written
	QueuedBytes int    // memory that waits for the output; for a ring, its size
}

func (s *SinkStats) add(o *SinkStats) {
	s.Offered += o.Offered
	s.Written += o.Written
	s.Dropped += o.Dropped
	s.Bytes += o.Bytes
}

// Stats returns the current counters.
func (l *Logger) Stats() Stats {
	st := Stats{Boot: l.boot, Seq: l.lastSeq()}
	for _, s := range l.sinks {
		st.Sinks = append(st.Sinks, s.statsNow())
	}
	if l.ring != nil {
		ring, http, readers := l.ring.statsNow()
		st.Sinks = append(st.Sinks, ring, http)
		st.Readers = readers
	}
	if l.limiter != nil {
		st.Held, st.Unaccounted = l.limiter.held()
	}
	return st
}
