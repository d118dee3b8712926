package gateway

import (
	"math/bits"
	"sync"
)

const (
	// relayBuffer is the size of the buffers that long results and long statements pass
	// through; a session borrows one for as long as one command needs it.
	relayBuffer = 64 << 10

	minBufferBits = 16 // relayBuffer

	// maxBufferBits fits the longest message that is held whole with its header: one byte
	// less than mysqlwire.MaxPayload, and HeaderLen.
	maxBufferBits = 25
)

// A bufferPool lends buffers of relayBuffer times a power of two bytes. What is given back
// is kept up to a bound in bytes and otherwise left to the garbage collector; unlike a
// sync.Pool it is not emptied by each collection. Sessions take and return buffers for long
// messages only, so the lock is not on the path of short statements.
type bufferPool struct {
	mu      sync.Mutex
	free    [maxBufferBits - minBufferBits + 1][][]byte // by size class
	kept    int64                                       // bytes in free
	maxKept int64
	lent    int64 // bytes that sessions hold
}

func newBufferPool(maxKept int64) *bufferPool { return &bufferPool{maxKept: maxKept} }

func bufferClass(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), minBufferBits) - minBufferBits
}

// take lends a buffer of at least n bytes.
func (p *bufferPool) take(n int) []byte {
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

// give returns a buffer that take lent.
func (p *bufferPool) give(b []byte) {
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

// bytes reports what the pool keeps and what sessions hold.
func (p *bufferPool) bytes() (kept, lent int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept, p.lent
}
