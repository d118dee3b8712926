package gateway

import (
	"unsafe"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/sizegen/heapsize"
)

// What a session holds on the heap that cannot be looked at from here, in bytes, each as
// cmd/tare's test of the heap's owners finds it.
const (
	// socketBytes is a TCP connection: package net's structs, the descriptor, both
	// addresses, and what mysqlconn adds for reading and writing.
	socketBytes = 752

	// goroutineBytes is the runtime's descriptor of a goroutine; its stack is no heap.
	goroutineBytes = 480

	// tlsBytes is a TLS connection after its handshake; tlsLongBytes is what more it keeps
	// for good once it has read records of full length.
	tlsBytes     = 6100
	tlsLongBytes = 39_000
)

// sessionBytes is what every session holds: itself, its goroutine, and both connections
// without their read buffers.
func sessionBytes() int64 {
	n := heapsize.Object(unsafe.Sizeof(session{}), true) + goroutineBytes
	n += 2 * (heapsize.Object(unsafe.Sizeof(mysqlconn.Conn{}), true) + socketBytes)
	return int64(n)
}

// buffersOf adds up what a session owns that has no fixed size, unrounded: a change shows
// that weigh has to look again.
func (s *session) buffersOf() int {
	n := s.bufferSize(clientSide) + s.bufferSize(backendSide)
	for _, size := range s.digester.HeapObjects() {
		n += size
	}
	n += cap(s.tagText) + cap(s.tagEnds) + cap(s.tagList) + cap(s.values) + cap(s.names)
	n += cap(s.errBuf) + cap(s.salt) + cap(s.user) + cap(s.schema)
	n += cap(s.sets.text) + cap(s.sets.ends)
	n += len(s.userName) + len(s.schemaName)
	for _, long := range s.long {
		if long {
			n++
		}
	}
	return n + s.statements.heap + len(s.statements.byID)
}

// bufferSize is the size of a side's own read buffer.
func (s *session) bufferSize(at side) int {
	switch {
	case s.shared[at] && s.conn(at).Size() <= readSize(at): // the loop's
		return 0
	case at == clientSide && s.borrowed, at == backendSide && s.relaying:
		return len(s.ownRead[at])
	case at == clientSide:
		return s.client.Size()
	}
	return s.backend.Size()
}

// weigh brings the server's account up to what the session holds now. Called between
// commands, it costs a few nanoseconds when nothing has grown. It does not allocate.
func (s *session) weigh() {
	n := s.buffersOf()
	if n == s.weighed {
		return
	}
	s.weighed = n
	bytes := sessionBytes()
	bytes += int64(heapsize.Object(uintptr(s.bufferSize(clientSide)), false) + heapsize.Object(uintptr(s.bufferSize(backendSide)), false))
	for _, size := range s.digester.HeapObjects() {
		bytes += int64(heapsize.Object(uintptr(size), false))
	}
	bytes += int64(heapsize.Bytes(s.tagText) + heapsize.Array(uintptr(cap(s.tagEnds)), unsafe.Sizeof(int(0)), false) +
		heapsize.Array(uintptr(cap(s.tagList)), unsafe.Sizeof(querylog.Tag{}), true) +
		heapsize.Array(uintptr(cap(s.values)), unsafe.Sizeof(mysqlwire.BinaryValue{}), true) +
		heapsize.Array(uintptr(cap(s.names)), unsafe.Sizeof([]byte(nil)), true) +
		heapsize.Bytes(s.sets.text) + heapsize.Array(uintptr(cap(s.sets.ends)), unsafe.Sizeof(int32(0)), false))
	bytes += int64(heapsize.Bytes(s.errBuf) + heapsize.Bytes(s.salt) + heapsize.Bytes(s.user) + heapsize.Bytes(s.schema) +
		heapsize.String(s.userName) + heapsize.String(s.schemaName))
	bytes += s.statements.heapBytes()
	for at, c := range [...]*mysqlconn.Conn{clientSide: s.client, backendSide: s.backend} {
		if c.IsTLS() {
			bytes += tlsBytes
			if s.long[at] {
				bytes += tlsLongBytes
			}
		}
	}
	s.holds(bytes)
}

// holds puts a session's bytes in the server's account, in place of what stood there.
func (s *session) holds(bytes int64) {
	s.srv.held.Add(bytes - s.held)
	s.held = bytes
}

// SessionBytes is the heap that sessions hold besides borrowed relay buffers (see
// BufferBytes): their structs, own buffers, prepared statements, connections, and what the
// server needs to find them. A session's part is fixed between its commands.
func (s *Server) SessionBytes() int64 {
	n := s.held.Load() + s.readerBytes.Load()
	s.registry.mu.Lock()
	n += int64(heapsize.MapOf(heapsize.ShapeWith[*session, struct{}](true, false), s.registry.sessions))
	s.registry.mu.Unlock()
	return n
}

// Commands is how many commands clients have sent. It adds up counters: for scrapes and
// timers.
func (s *Server) Commands() uint64 {
	return s.metrics.sum(func(c *stripe) (n uint64) {
		for i := range c.commands {
			n += c.commands[i].Load()
		}
		return n
	})
}

// PlanMisses is how many statements had no plan in the cache. The planner's own count has some
// of them twice: it looks again before it makes a plan.
func (s *Server) PlanMisses() uint64 {
	return s.metrics.sum(func(c *stripe) uint64 { return c.planMisses.Load() })
}
