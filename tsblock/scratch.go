package tsblock

import (
	"slices"
	"unsafe"
)

// maxScratch is the most that a scratch keeps when it goes back: a query that needed more
// gives it to the collector.
const maxScratch = 2 << 20

// A scratch is the working space of one Reader.
type scratch struct {
	index  pageSet // postings and series
	local  pageSet // table and symbols
	hashes pageSet

	ranges  []listRange
	window  []uint32 // series to read next
	slots   []uint32 // of the labels of a batch: name, value, name, value …
	ends    []uint32 // in slots, of the series that are sifted
	labels  []Label  // of one series
	chunks  []Chunk  // of one series
	symbols symbolSet
}

func (e *Entries) scratch() *scratch {
	if s, ok := e.scratches.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

// release unpins what a reader has pinned.
func (s *scratch) release() {
	s.index.reset()
	s.local.reset()
	s.hashes.reset()
}

// putScratch takes back the working space of a reader that is closed.
func (e *Entries) putScratch(s *scratch) {
	if s.bytes() > maxScratch {
		return
	}
	for _, p := range [...]*pageSet{&s.index, &s.local, &s.hashes} {
		p.reader, p.file, p.usage = nil, nil, nil
	}
	s.symbols.reset()
	e.scratches.Put(s)
}

// bytes is what the scratch takes of the heap, in its slices.
func (s *scratch) bytes() int64 {
	return sliceBytes(s.ranges) + sliceBytes(s.window) + sliceBytes(s.slots) + sliceBytes(s.ends) + sliceBytes(s.labels) + sliceBytes(s.chunks) + s.symbols.bytes() +
		s.index.bytes() + s.local.bytes() + s.hashes.bytes()
}

func (s *pageSet) bytes() int64 { return sliceBytes(s.pins) + int64(cap(s.span)) }

func sliceBytes[T any](s []T) int64 {
	var t T
	return int64(cap(s)) * int64(unsafe.Sizeof(t))
}

// room returns s with room for n more, which is charged first; it stays charged until the reader is
// closed.
func room[T any](r *Reader, s []T, n int) ([]T, error) {
	if n <= cap(s)-len(s) {
		return s, nil
	}
	size := max(len(s)+n, 2*cap(s), 64)
	var t T
	if err := r.account.reserve(scratchPurpose, int64(size-cap(s))*int64(unsafe.Sizeof(t))); err != nil {
		return s, err
	}
	return slices.Grow(s, size-len(s)), nil
}
