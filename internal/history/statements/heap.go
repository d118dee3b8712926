package statements

import "github.com/taredb/tare/sizegen/heapsize"

// HeapBytes returns the bytes of the counters that are kept for the next requests.
func (a *ArchiveReader) HeapBytes() int64 { return a.counters.held.Load() }

// weigh sets the bytes that are kept. The caller holds the lock.
func (l *liveCounters) weigh() {
	n := l.snapshot.heapBytes()
	if b := l.base; b != nil {
		n += int64(heapsize.Slice(b.marks) + heapsize.Slice(b.prints) + heapsize.Slice(b.known))
		if b.snapshot != l.snapshot {
			n += b.snapshot.heapBytes()
		}
		if b.file != nil {
			n += b.file.bytes
		}
	}
	if l.rest != nil {
		for _, file := range l.rest.files {
			if l.base == nil || file != l.base.file {
				n += file.bytes
			}
		}
	}
	l.held.Store(n)
}

// heapBytes returns the bytes of a snapshot with its rows' texts; 0 of none.
func (s *snapshot) heapBytes() int64 {
	if s == nil {
		return 0
	}
	n := s.bytes + int64(heapsize.Slice(s.rows))
	for i := range s.rows {
		n += int64(heapsize.String(s.rows[i].Text))
	}
	return n
}
