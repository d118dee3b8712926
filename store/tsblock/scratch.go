package tsblock

import (
	"slices"
	"unsafe"
)

// maxScratch bounds the size of a scratch that returns to the pool. A larger one is left to the garbage
// collector.
const maxScratch = 2 << 20

// A scratch is the working memory of one Reader.
type scratch struct {
	index  pageSet // postings and series
	local  pageSet // table and symbols
	hashes pageSet

	ranges  []listRange
	window  []uint32 // series to read next
	slots   []uint32 // of the labels of a batch: name, value, name, value …
	last    []uint32 // symbols of the last series of a batch
	ends    []uint32 // end offsets in slots of the series in the window
	labels  []Label  // of one series
	chunks  []Chunk  // of one series
	symbols symbolSet
	known   knownSelection
}

func (e *Entries) scratch() *scratch {
	if s, ok := e.scratches.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

// release unpins all pages.
func (s *scratch) release() {
	s.index.reset()
	s.index.distrust = false
	s.local.reset()
	s.hashes.reset()
	s.known.reset()
}

// putScratch returns the working memory of a closed reader to the pool.
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

// bytes returns the heap size of the scratch's slices.
func (s *scratch) bytes() int64 {
	return sliceBytes(s.ranges) + sliceBytes(s.window) + sliceBytes(s.slots) + sliceBytes(s.last) + sliceBytes(s.ends) + sliceBytes(s.labels) + sliceBytes(s.chunks) + s.symbols.bytes() + s.known.bytes() +
		s.index.bytes() + s.local.bytes() + s.hashes.bytes()
}

func (s *pageSet) bytes() int64 { return sliceBytes(s.pins) + int64(cap(s.span)) }

func sliceBytes[T any](s []T) int64 {
	var t T
	return int64(cap(s)) * int64(unsafe.Sizeof(t))
}

// room returns s with capacity for n more elements. It charges them first; they stay charged until the reader
// is closed.
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
