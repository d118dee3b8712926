package mysqlconn

import (
	"sync/atomic"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// Heap bytes of a connection that this package cannot measure, as determined by profiles and the tests of the heap's owners in cmd/tare.
const (
	// socketBytes is the cost of a TCP connection besides Conn: its descriptor and both addresses.
	socketBytes = 416

	// watchBytes is the cost of the function of Watch, with the configuration that it needs.
	watchBytes = 480

	// tlsBytes is the cost of a TLS connection after its login, with a tenth of the memory that all connections to a server share, such as
	// its certificate; tlsLongBytes is added for good once it has received a record that is longer than those of a login.
	tlsBytes     = 12_500
	tlsLongBytes = 35_584

	// tlsLong is the size of a record for which the buffer that a login leaves is too small.
	tlsLong = 5 << 10
)

// An account counts the heap bytes of a connection in Config.Heap.
type account struct {
	c     *Client
	total *atomic.Int64
	part  atomic.Int64 // of the total; closed after Conn.Close, which may be called concurrently
	held  int64        // set by Client.Hold

	record int  // bytes of the current TLS record that were read
	long   bool // a long record was received
}

// read records a read of n bytes; full means that there was no room for more of the same record.
func (a *account) read(n int, full bool) {
	if a.record += n; a.record > tlsLong {
		a.long = true
	}
	if !full {
		a.record = 0
	}
}

// closed is the part of a connection that is closed.
const closed = -1

// set changes the part.
func (a *account) set(bytes int64) {
	for {
		old := a.part.Load()
		if old == bytes || old == closed {
			return
		}
		if a.part.CompareAndSwap(old, bytes) {
			a.total.Add(bytes - old)
			return
		}
	}
}

// close removes the part for good.
func (a *account) close() {
	if a == nil {
		return
	}
	if old := a.part.Swap(closed); old != closed {
		a.total.Add(-old)
	}
}

// Hold adds bytes of the heap to those that are counted for the connection in Config.Heap, in place of those of the previous call:
// buffers of the caller that are used with this connection alone. It does not allocate.
func (c *Client) Hold(bytes int64) {
	if c.account == nil || c.account.held == bytes {
		return
	}
	c.account.held = bytes
	c.account.weigh()
}

// Hold is Client.Hold for the connection of the events.
func (e *Events) Hold(bytes int64) { e.c.Hold(bytes) }

// weigh counts the connection's current heap bytes. It does not allocate.
func (a *account) weigh() {
	if a == nil {
		return
	}
	c := a.c
	n := heapsize.Object(unsafe.Sizeof(*c), true) + heapsize.Object(unsafe.Sizeof(*c.Conn), true) + heapsize.Object(unsafe.Sizeof(*a), true) + socketBytes +
		heapsize.Bytes(c.buf) + heapsize.Bytes(c.out) + heapsize.Bytes(c.statement) + heapsize.Slice(c.row) + heapsize.String(c.ServerVersion)
	if c.watch != nil {
		n += heapsize.Object(unsafe.Sizeof(*c.watch), true) + watchBytes
	}
	if c.IsTLS() {
		n += tlsBytes
		if a.long {
			n += tlsLongBytes
		}
	}
	a.set(int64(n) + a.held)
}
