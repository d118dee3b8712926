package querylog

// Stats is what a Logger has done so far.
type Stats struct {
	Boot string
	Seq  uint64 // of the last record

	// Sinks holds one entry for each sink, then, where there is a ring, one for the ring
	// and one, "http", for all readers of ServeHTTP together.
	Sinks []SinkStats

	Readers int // of ServeHTTP, now

	// Held is how many entries the limit per digest holds back and will add to the factor
	// of the digest's next line; Unaccounted how many it held back for digests that have
	// lost their place in its table, which no line's factor counts.
	Held, Unaccounted uint64
}

// SinkStats is what one sink has done so far. Written + Dropped = Offered once what is
// queued has been written, and always after Close.
type SinkStats struct {
	Name        string
	Offered     uint64 // records
	Written     uint64 // records that stand in the output
	Dropped     uint64 // records that are lost to this sink
	Bytes       uint64 // bytes written
	QueuedBytes int    // memory that waits for the output; of a ring, its size
}

func (s *SinkStats) add(o *SinkStats) {
	s.Offered += o.Offered
	s.Written += o.Written
	s.Dropped += o.Dropped
	s.Bytes += o.Bytes
}

// Stats answers the present counts.
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
