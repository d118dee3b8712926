package follow

import (
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// weigh updates the part of a slot in Options.Heap. It does not allocate.
func (f *Follower) weigh(s *slot) {
	if f.o.Heap == nil {
		return
	}
	n := int64(heapsize.Object(unsafe.Sizeof(*s), true)) + s.batch.HeapBytes() + s.applier.heapBytes()
	f.o.Heap.Add(n - s.weighed)
	s.weighed = n
}

// forget removes the parts of slots from Options.Heap.
func (f *Follower) forget(slots []*slot) {
	for _, s := range slots {
		if s.weighed != 0 {
			f.o.Heap.Add(-s.weighed)
		}
	}
}

// heapBytes returns the heap bytes of the applier, without the tables and the batch.
func (a *applier) heapBytes() int64 {
	n := heapsize.Object(unsafe.Sizeof(*a), true) + heapsize.Slice(a.scripts) + heapsize.Slice(a.before) + heapsize.Slice(a.after) +
		heapsize.Slice(a.keys) + heapsize.Slice(a.slots) + heapsize.Bytes(a.bytes)
	for i := range a.scripts {
		n += a.scripts[i].heapBytes()
	}
	return int64(n)
}

// heapBytes returns the heap bytes of the script's memory. The keys that insertions have seen are not counted.
func (s *script) heapBytes() uintptr {
	n := heapsize.Bytes(s.text) + heapsize.Slice(s.statements) + heapsize.Bytes(s.typed)
	if i := &s.insertion; i.deletes != nil {
		n += heapsize.Slice(i.deletes) + heapsize.Slice(i.keys) + heapsize.Bytes(i.rows) + heapsize.Bytes(i.key)
		for _, text := range i.deletes {
			n += heapsize.Bytes(text)
		}
	}
	return n
}
