package querylog

import (
	"sync"
	"sync/atomic"
	"time"
)

// A batch is a run of whole lines of one lane on its way from a stripe to the lane's sinks. Every holder of a
// reference may read it; releasing the last reference returns it to the store.
type batch struct {
	buf   []byte
	lines int
	from  int64 // end time of the first and last line, Unix nanoseconds
	to    int64
	refs  atomic.Int32
}

// countLine counts one appended line.
func (b *batch) countLine(end time.Time) {
	ns := end.UnixNano()
	if b.lines == 0 {
		b.from, b.to = ns, ns
	}
	b.from, b.to = min(b.from, ns), max(b.to, ns)
	b.lines++
}

// bufferSlack is the room in bytes past the flush threshold, so that the line that crosses the threshold fits
// too.
const bufferSlack = 8 << 10

// A batchStore keeps unused batches: as many as the sinks' queues may contain while there is traffic, and
// spare of them otherwise. Batches whose buffer has outgrown the bound, after a huge line, are left to the
// garbage collector.
type batchStore struct {
	size   int // size of a new buffer in bytes
	maxCap int // largest buffer that is kept, in bytes
	spare  int // batches kept by trim
	most   int // batches kept by release

	mu   sync.Mutex
	free []*batch // under mu
}

func (s *batchStore) get() *batch {
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		s.mu.Unlock()
		return b
	}
	s.mu.Unlock()
	return &batch{buf: make([]byte, 0, s.size)}
}

// release drops one reference to b.
func (s *batchStore) release(b *batch) {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("BUG: querylog: batch released twice")
	}
	if cap(b.buf) > s.maxCap {
		return
	}
	b.buf, b.lines, b.from, b.to = b.buf[:0], 0, 0, 0
	s.mu.Lock()
	if len(s.free) < s.most {
		s.free = append(s.free, b)
	}
	s.mu.Unlock()
}

// trim drops the batches in excess of spare, left over from a burst.
func (s *batchStore) trim() {
	s.mu.Lock()
	if len(s.free) > s.spare {
		clear(s.free[s.spare:])
		s.free = s.free[:s.spare]
	}
	s.mu.Unlock()
}
