package slab

// PoolStats are counters of a Pool, or of a pool of Entries.
type PoolStats struct {
	Calls    int64 // slabs lent, since the start
	Releases int64 // slabs returned; Calls - Releases are lent
	Made     int64 // slabs allocated because none was idle
	Oversize int64 // of those, the ones too large to be kept
	Misused  int64 // releases and uses of slabs whose loan was over

	GivenBack int64 // idle slabs freed

	OutBytes  int64 // lent now
	PeakBytes int64 // maximum of OutBytes
	Idle      int64 // idle slabs
	IdleBytes int64
}

// out counts a loan.
func (s *PoolStats) out(bytes int64) {
	s.OutBytes += bytes
	s.PeakBytes = max(s.PeakBytes, s.OutBytes)
}

// in counts the end of a loan.
func (s *PoolStats) in(bytes int64) { s.OutBytes -= bytes }

// Add returns the sum of two pools' counters. PeakBytes is then an upper bound.
func (s PoolStats) Add(o PoolStats) PoolStats {
	return PoolStats{
		Calls: s.Calls + o.Calls, Releases: s.Releases + o.Releases, Made: s.Made + o.Made,
		Oversize: s.Oversize + o.Oversize, Misused: s.Misused + o.Misused, GivenBack: s.GivenBack + o.GivenBack,
		OutBytes: s.OutBytes + o.OutBytes, PeakBytes: s.PeakBytes + o.PeakBytes,
		Idle: s.Idle + o.Idle, IdleBytes: s.IdleBytes + o.IdleBytes,
	}
}
