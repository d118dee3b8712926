package querylog

import (
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// HeapBytes returns the heap bytes of the logger: the ring, the stripes with their buffered lines, batches in
// queues and in reserve, the table of the limit per digest, and two chunks for each reader of ServeHTTP. A
// batch queued for two sinks counts for each. It takes the locks that Log takes, one after the other: meant
// for scrapes.
func (l *Logger) HeapBytes() int64 {
	n := heapsize.Object(unsafe.Sizeof(*l), true)
	n += heapsize.Array(uintptr(cap(l.stripes)), unsafe.Sizeof(stripe{}), true)
	for i := range l.stripes {
		n += l.stripes[i].heapBytes()
	}
	n += l.store.heapBytes()
	for _, s := range l.sinks {
		n += s.heapBytes()
	}
	if l.ring != nil {
		n += l.ring.heapBytes()
	}
	if l.limiter != nil {
		n += heapsize.Object(unsafe.Sizeof(*l.limiter), false)
	}
	return int64(n)
}

func (s *stripe) heapBytes() uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := heapsize.Array(uintptr(cap(s.lanes)), unsafe.Sizeof(stripeLane{}), true)
	for i := range s.lanes {
		n += s.lanes[i].line.scratchBytes()
		if b := s.lanes[i].b; b != nil {
			n += b.heapBytes()
		}
	}
	return n
}

// scratchBytes returns the memory of the line besides its buffer, which belongs to a batch.
func (l *Line) scratchBytes() uintptr {
	return heapsize.Bytes(l.scratch) + heapsize.Array(uintptr(cap(l.order)), unsafe.Sizeof(int32(0)), false)
}

func (b *batch) heapBytes() uintptr {
	return heapsize.Object(unsafe.Sizeof(*b), true) + heapsize.Bytes(b.buf)
}

func (s *batchStore) heapBytes() uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := heapsize.Array(uintptr(cap(s.free)), unsafe.Sizeof((*batch)(nil)), true)
	for _, b := range s.free {
		n += b.heapBytes()
	}
	return n
}

// heapBytes returns the memory of the sink's queue, with the batch being written.
func (s *sink) heapBytes() uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uintptr(s.bytes) + heapsize.Array(uintptr(cap(s.queue)), unsafe.Sizeof(queued{}), true)
}

func (r *ring) heapBytes() uintptr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return heapsize.Object(unsafe.Sizeof(*r), true) + heapsize.Bytes(r.buf) + heapsize.Bytes(r.notes) +
		uintptr(len(r.readers))*2*heapsize.Object(readChunk, false)
}
