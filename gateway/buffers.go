package gateway

import (
	"math/bits"
	"sync"
)

const (
	// relayBuffer is the size of the buffers that long results and long statements pass through; a session
	// borrows one for the duration of one command.
	relayBuffer = 64 << 10

	minBufferBits = 16 // relayBuffer

	// maxBufferBits fits the longest message that is buffered whole with its header: HeaderLen plus one byte
	// less than mysqlwire.MaxPayload.
	maxBufferBits = 25
)

// A bufferPool lends buffers of relayBuffer times a power of two bytes. Returned buffers are kept up to a
// bound in bytes; the rest is left to the garbage collector. Unlike a sync.Pool it is not emptied by each
// collection. Sessions borrow buffers for long messages only, so the lock is not on the path of short
// statements.
type bufferPool struct {
	mu      sync.Mutex
	free    [maxBufferBits - minBufferBits + 1][][]byte // by size class
	kept    int64                                       // bytes in free
	maxKept int64
	lent    int64 // bytes lent to sessions
}

func newBufferPool(maxKept int64) *bufferPool { return &bufferPool{maxKept: maxKept} }

func bufferClass(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), minBufferBits) - minBufferBits
}

// get lends a buffer of at least n bytes.
func (p *bufferPool) get(n int) []byte {
	c := bufferClass(n)
	size := int64(1) << (c + minBufferBits)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent += size
	list := p.free[c]
	if len(list) == 0 {
		return make([]byte, size)
	}
	b := list[len(list)-1]
	list[len(list)-1] = nil
	p.free[c] = list[:len(list)-1]
	p.kept -= size
	return b
}

// put returns a lent buffer to the pool.
func (p *bufferPool) put(b []byte) {
	c := bufferClass(len(b))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent -= int64(len(b))
	if p.kept+int64(len(b)) > p.maxKept {
		return
	}
	p.kept += int64(len(b))
	p.free[c] = append(p.free[c], b)
}

// bytes returns the bytes kept by the pool and the bytes lent to sessions.
func (p *bufferPool) bytes() (kept, lent int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept, p.lent
}
