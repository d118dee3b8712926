package querylog

// Stats is what a Logger has done so far.
type Stats struct {
	Boot  string
	Seq   uint64 // of the last record
	Sinks []SinkStats
}

// SinkStats is what one sink has done so far. Written + Dropped = Offered once what is
// queued has been written, and always after Close.
type SinkStats struct {
	Name        string
	Offered     uint64 // records
	Written     uint64 // records that stand in the output
	Dropped     uint64 // records that are lost to this sink
	Bytes       uint64 // bytes written
	QueuedBytes int    // memory that waits for the output
}

// Stats answers the present counts.
func (l *Logger) Stats() Stats {
	st := Stats{Boot: l.boot, Seq: l.seq.Load()}
	for _, s := range l.sinks {
		st.Sinks = append(st.Sinks, s.statsNow())
	}
	return st
}
