package rollup

import (
	"math/bits"
	"sync"
)

// Buffers of these lengths, as powers of two, are reused: those of windows and of whole columns of prints.
const (
	leastBuffer = 12
	mostBuffer  = 20
)

var buffers [mostBuffer + 1]sync.Pool //nolint:gochecknoglobals // of the process

// buffer returns n bytes, with any content.
func buffer(n int64) []byte {
	class := bits.Len64(uint64(n - 1))
	if class < leastBuffer || class > mostBuffer {
		return make([]byte, n)
	}
	if b, ok := buffers[class].Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, n, 1<<class)
}

// release releases a buffer.
func release(b *[]byte) {
	n := cap(*b)
	if class := bits.Len64(uint64(n)) - 1; class >= leastBuffer && class <= mostBuffer && n == 1<<class {
		kept := (*b)[:n]
		buffers[class].Put(&kept)
	}
	*b = nil
}

// Release releases the memory of r, which can be used again.
func (r *ColumnReader) Release() { release(&r.b) }

// Release releases the memory of s, which can be used again.
func (s *SpreadReader) Release() {
	s.ends.Release()
	s.spreads.Release()
}

// Release releases the memory of n, which can be used again.
func (n *KeyReader) Release() {
	n.digests.Release()
	for i := range n.numbers {
		n.numbers[i].Release()
	}
}

// Release releases the memory of t, which can be used again.
func (t *TextReader) Release() {
	t.refs.Release()
	t.places.Release()
	t.pages.Release()
	release(&t.page)
	t.number = -1
}
