package gateway

import (
	"math/bits"
	"sync"

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
	free    [2][][]byte // by side
	queries []*query    // free ones
	_       [64]byte    // keeps loops apart
}

// maxFreeReads bounds the free buffers kept for each side of a loop's sessions. More are in use while that
// many sessions have sent a command and wait for its response.
const maxFreeReads = 256

// get returns a free buffer, or a new one.
func (b *readBuffers) get(srv *Server, at side) []byte {
	n := len(b.free[at])
	if n == 0 {
		size := readSize(at)
		srv.readerBytes.Add(int64(size))
		return make([]byte, size)
	}
	buf := b.free[at][n-1]
	b.free[at] = b.free[at][:n-1]
	return buf
}

// put returns a buffer to the free list.
func (b *readBuffers) put(srv *Server, at side, buf []byte) {
	if len(b.free[at]) >= maxFreeReads {
		srv.readerBytes.Add(-int64(len(buf)))
		return
	}
	b.free[at] = append(b.free[at], buf)
}

func readSize(at side) int {
	if at == clientSide {
		return clientBuffer
	}
	return backendBuffer
}

// shareBuffers hands the session's private buffers to its loop, if they qualify.
func (s *session) shareBuffers() {
	loop, ok := s.task.Loop()
	if !ok {
		return
	}
	s.readers = &s.srv.readers[loop]
	for at, c := range [...]*mysqlconn.Conn{clientSide: s.client, backendSide: s.backend} {
		if s.shared[at] || c.NetConn() != c.Socket() || c.Size() != readSize(side(at)) {
			continue
		}
		s.shared[at] = true
		s.srv.readerBytes.Add(int64(c.Size())) // the next weigh subtracts it from the session's bytes
	}
}

// unshareBuffer returns a side's buffer to the loop before the side's connection is closed.
func (s *session) unshareBuffer(at side) {
	if !s.shared[at] {
		return
	}
	s.shared[at] = false
	buf := s.conn(at).SwapBuffer(nil)
	if len(buf) != readSize(at) { // a login replaced it by a longer one
		s.srv.readerBytes.Add(-int64(readSize(at)))
		return
	}
	s.readers.put(s.srv, at, buf)
}

func (s *session) conn(at side) *mysqlconn.Conn {
	if at == clientSide {
		return s.client
	}
	return s.backend
}

// awaitBytes waits until a side is readable. Meanwhile it lends the loop the side's read buffer if that is
// empty and shared; between commands, that is at the client's side, it lends both sides' buffers and the query. It
// does not allocate if the loop has free ones.
func (s *session) awaitBytes(at side) {
	if s.readers == nil {
		return
	}
	nc := onLoop(s.conn(at))
	if nc.Ready() || !s.lendsBuffer(at) {
		return
	}
	both := at == clientSide && s.lendsBuffer(backendSide)
	s.giveBuffer(at)
	if both {
		s.giveBuffer(backendSide)
	}
	if at == clientSide {
		s.giveQuery()
	}
	nc.AwaitRead()
	if at == clientSide {
		s.takeQuery()
	}
	s.takeBuffer(at)
	if both {
		s.takeBuffer(backendSide)
	}
}

// lendsBuffer reports whether a side's read buffer is empty, shared, and not a relay buffer.
func (s *session) lendsBuffer(at side) bool {
	c := s.conn(at)
	return s.shared[at] && len(c.Buffered()) == 0 && c.Size() == readSize(at)
}

func (s *session) giveBuffer(at side) { s.readers.put(s.srv, at, s.conn(at).SwapBuffer(nil)) }

func (s *session) takeBuffer(at side) { s.conn(at).SwapBuffer(s.readers.get(s.srv, at)) }
