package tsblock

import (
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// HeapBytes returns the heap size of the block's loaded index header and series hashes, or 0 if they are not
// loaded. Pages read from the block belong to the Cache.
func (b *Block) HeapBytes() int64 {
	var n uintptr
	if h := b.header.now.Load(); h != nil {
		n += h.heapBytes()
	}
	if h := b.hashes.now.Load(); h != nil {
		n += heapsize.Object(unsafe.Sizeof(*h), true) + heapsize.Slice(h.first) + h.file.heapBytes()
	}
	return int64(n)
}

func (h *header) heapBytes() uintptr {
	n := heapsize.Object(unsafe.Sizeof(*h), true) + heapsize.Object(h.text, false) +
		heapsize.Slice(h.symbols) + heapsize.Slice(h.names) + h.file.heapBytes() + h.index.heapBytes()
	for i := range h.names {
		n += heapsize.Slice(h.names[i].runs)
	}
	return n
}

func (f *pagedFile) heapBytes() uintptr {
	return heapsize.Object(unsafe.Sizeof(*f), true) + heapsize.Slice(f.sums)
}
