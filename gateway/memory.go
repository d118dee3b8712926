package gateway

import (
	"sync/atomic"
	"unsafe"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/sizegen/heapsize"
)

// Heap bytes of a session that this package cannot measure, as determined by the test of the heap's owners in
// cmd/tare.
const (
	// socketBytes is the cost of a TCP connection: its descriptor on a loop, both addresses, and mysqlconn's state for
	// reading and writing.
	socketBytes = 416

	// goroutineBytes is the cost of the runtime's descriptor of a goroutine; its stack is not on the heap.
	goroutineBytes = 480

	// tlsBytes is the cost of a TLS connection after its handshake; tlsLongBytes is added permanently once it
	// has read records of full length.
	tlsBytes     = 6100
	tlsLongBytes = 38_950
)

// sessionBytes returns the fixed cost of a session: its struct, its goroutine, and both connections, without
// their read buffers and its query.
func sessionBytes() int64 {
	n := heapsize.Object(unsafe.Sizeof(session{}), true) + goroutineBytes
	n += 2 * (heapsize.Object(unsafe.Sizeof(mysqlconn.Conn{}), true) + socketBytes)
	return int64(n)
}

// buffersOf returns the bytes that a session owns in buffers of variable size, unrounded. A change means that
// weigh has to recompute the session's cost.
func (s *session) buffersOf() int {
	n := s.link.size() + cap(s.errBuf) + cap(s.salt) + cap(s.carried.sets.text) + cap(s.carried.sets.ends)
	return n + len(s.modes.user) + len(s.modes.schema) + s.statements.heap + len(s.statements.byID)
}

// weigh updates the server's account to the session's current heap bytes. Called between commands, it costs a
// few nanoseconds if nothing has grown. It does not allocate.
func (s *session) weigh() {
	if n := s.buffersOf(); s.account.isCurrent(n) {
		return
	}
	bytes := sessionBytes() + s.link.heap() + s.statements.heapBytes()
	bytes += int64(heapsize.Bytes(s.carried.sets.text) + heapsize.Array(uintptr(cap(s.carried.sets.ends)), unsafe.Sizeof(int32(0)), false))
	bytes += int64(heapsize.Bytes(s.errBuf) + heapsize.Bytes(s.salt) + heapsize.String(s.modes.user) + heapsize.String(s.modes.schema))
	s.account.charge(&s.srv.held, bytes)
}

// An account is a session's part of the server's heap bytes.
type account struct {
	charged int64
	size    int // of the last isCurrent
}

// isCurrent reports whether size is that of the last call: what was charged has not changed.
func (a *account) isCurrent(size int) bool {
	same := size == a.size
	a.size = size
	return same
}

// charge replaces the session's bytes in the server's account.
func (a *account) charge(held *atomic.Int64, bytes int64) {
	held.Add(bytes - a.charged)
	a.charged = bytes
}

// SessionBytes returns the heap bytes of sessions besides borrowed relay buffers (see BufferBytes): their
// structs, private buffers, prepared statements, connections, and the server's index entries. A session's
// part is updated between its commands.
func (s *Server) SessionBytes() int64 {
	n := s.held.Load() + s.readerBytes.Load() + s.queryBytes.Load()
	s.registry.mu.Lock()
	n += int64(heapsize.MapOf(heapsize.ShapeWith[*session, struct{}](true, false), s.registry.sessions))
	s.registry.mu.Unlock()
	return n
}

// Commands returns the number of commands received from clients. It sums counters over all stripes: meant for
// scrapes and timers.
func (s *Server) Commands() uint64 {
	return s.metrics.sum(func(c *stripe) (n uint64) {
		for i := range c.commands {
			n += c.commands[i].Load()
		}
		return n
	})
}

// PlanMisses returns the number of statements that had no plan in the cache. The planner's counter counts
// some of them twice, because it looks up again before it creates a plan.
func (s *Server) PlanMisses() uint64 {
	return s.metrics.sum(func(c *stripe) uint64 { return c.planMisses.Load() })
}
