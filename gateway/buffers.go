package gateway

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/mysql/mysqlconn"
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

// readBuffers are read buffers shared by the sessions of one loop. A session has one only while there are
// bytes in it, so waiting sessions have none, and active ones reuse the few most recently used. Only sessions
// of the loop use it, one at a time, so it needs no lock.
//
// A session has private read buffers if bytes may be buffered behind the socket, by crypto/tls or in the
// frames of the compressed protocol, or if it has no loop.
type readBuffers struct {
	free    [2][][]byte   // by side
	queries []*query      // free ones
	bytes   *atomic.Int64 // Server.readerBytes
	_       [64]byte      // keeps loops apart
}

// maxFreeReads bounds the free buffers kept for each side of a loop's sessions. More are in use while that
// many sessions have sent a command and wait for its response.
const maxFreeReads = 256

// get returns a free buffer, or a new one.
func (b *readBuffers) get(at side) []byte {
	n := len(b.free[at])
	if n == 0 {
		size := readSize(at)
		b.bytes.Add(int64(size))
		return make([]byte, size)
	}
	buf := b.free[at][n-1]
	b.free[at] = b.free[at][:n-1]
	return buf
}

// put returns a buffer to the free list.
func (b *readBuffers) put(at side, buf []byte) {
	if len(b.free[at]) >= maxFreeReads {
		b.bytes.Add(-int64(len(buf)))
		return
	}
	b.free[at] = append(b.free[at], buf)
}

// putQuery adds a query to the free ones, and reports whether there was room.
func (b *readBuffers) putQuery(q *query) bool {
	if len(b.queries) >= maxFreeReads {
		return false
	}
	b.queries = append(b.queries, q)
	return true
}

// getQuery returns a free query, or nil.
func (b *readBuffers) getQuery() *query {
	n := len(b.queries)
	if n == 0 {
		return nil
	}
	q := b.queries[n-1]
	b.queries = b.queries[:n-1]
	return q
}

func readSize(at side) int {
	if at == clientSide {
		return clientBuffer
	}
	return backendBuffer
}

// shareBuffers hands the session's private buffers to its loop, if they qualify.
func (l *link) shareBuffers() {
	for at, c := range [...]*mysqlconn.Conn{clientSide: l.client, backendSide: l.backend} {
		if l.shared[at] || c.NetConn() != c.Socket() || c.Size() != readSize(side(at)) {
			continue
		}
		l.shared[at] = true
		l.readers.bytes.Add(int64(c.Size())) // the next weigh subtracts it from the session's bytes
	}
}

// unshareBuffer returns a side's buffer to the loop before the side's connection is closed.
func (l *link) unshareBuffer(at side) {
	if !l.shared[at] {
		return
	}
	l.shared[at] = false
	buf := l.conn(at).SwapBuffer(nil)
	if len(buf) != readSize(at) { // a login replaced it by a longer one
		l.readers.bytes.Add(-int64(readSize(at)))
		return
	}
	l.readers.put(at, buf)
}

// lendsBuffer reports whether a side's read buffer is empty, shared, and not a relay buffer.
func (l *link) lendsBuffer(at side) bool {
	c := l.conn(at)
	return l.shared[at] && len(c.Buffered()) == 0 && c.Size() == readSize(at)
}

func (l *link) giveBuffer(at side) { l.readers.put(at, l.conn(at).SwapBuffer(nil)) }

func (l *link) takeBuffer(at side) { l.conn(at).SwapBuffer(l.readers.get(at)) }

// bufferSize returns the size of a side's private read buffer.
func (l *link) bufferSize(at side) int {
	switch {
	case l.shared[at] && l.conn(at).Size() <= readSize(at): // the buffer belongs to the loop
		return 0
	case l.borrowed[at]:
		return len(l.ownRead[at])
	case at == clientSide:
		return l.client.Size()
	}
	return l.backend.Size()
}

const (
	clientBuffer  = 2 << 10 // bytes; fits most statements
	backendBuffer = 4 << 10 // bytes; fits most responses
)

// borrowClient gives the client side a pool buffer of at least n bytes.
func (l *link) borrowClient(n int) {
	l.long[clientSide] = true
	old := l.client.SwapBuffer(l.pool.get(n))
	if l.borrowed[clientSide] {
		l.pool.put(old)
	} else {
		l.ownRead[clientSide], l.borrowed[clientSide] = old, true
	}
}

// borrowBackend gives the backend side a pool buffer for a long response.
func (l *link) borrowBackend() {
	if !l.borrowed[backendSide] {
		l.ownRead[backendSide] = l.backend.SwapBuffer(l.pool.get(relayBuffer))
		l.borrowed[backendSide], l.long[backendSide] = true, true
	}
}

// returnBuffers returns borrowed buffers to the pool if the client's buffered bytes fit its private buffer.
func (l *link) returnBuffers() {
	if l.borrowed[backendSide] && len(l.backend.Buffered()) <= backendBuffer {
		l.pool.put(l.backend.SwapBuffer(l.ownRead[backendSide]))
		l.borrowed[backendSide] = false
	}
	if l.borrowed[clientSide] && len(l.client.Buffered()) <= clientBuffer {
		l.pool.put(l.client.SwapBuffer(l.ownRead[clientSide]))
		l.borrowed[clientSide] = false
	}
}
