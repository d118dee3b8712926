package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/sizegen/heapsize"
)

// A link is the two connections of a session: their read buffers, their deadlines, and the causes for which other goroutines
// wake their reads. Only its methods change the fields. One goroutine uses it, except for interrupt and wake.
type link struct {
	client  *mysqlconn.Conn
	backend *mysqlconn.Conn // nil before it is connected
	task    *netloop.Task   // nil until the login is over
	remote  netip.AddrPort  // of the client
	local   bool            // the client connected by a Unix socket

	halfClosed bool // the client has closed its sending side; commands may be left
	ended      bool // and all of its commands were forwarded

	// Read buffers, by side.
	borrowed [2]bool // the buffer belongs to the pool
	shared   [2]bool // the buffer is one of readers
	long     [2]bool // a buffer was borrowed before: a read exceeded the private buffer

	causes  atomic.Uint32 // other goroutines set them
	pool    *bufferPool
	readers *readBuffers // of the loop; nil: the buffers are private
	ownRead [2][]byte    // the private or shared buffer while another one is borrowed

	// Fields that other goroutines read.
	peer atomic.Pointer[mysqlconn.Conn] // backend, if reads from it are to be woken
	poke atomic.Pointer[chan struct{}]  // wakes a wait for the end of a pause

	pausing atomic.Bool // the task waits for a shared connection
}

// open starts the link of a client that has connected.
func (l *link) open(nc net.Conn, pool *bufferPool) {
	l.client, l.pool = mysqlconn.NewBuffer(netloop.NewConn(nc), make([]byte, clientBuffer)), pool
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		at := a.AddrPort()
		l.remote = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	_, l.local = nc.(*net.UnixConn)
}

// join makes the link a task's, with the memory of the task's loop: no other CPU writes to memory that the loop's sessions
// write to for each statement.
func (l *link) join(t *netloop.Task, readers []readBuffers) {
	l.task = t
	if loop, ok := t.Loop(); ok {
		l.readers = &readers[loop]
		l.shareBuffers()
	}
}

// setBackend replaces the backend's connection; nil: there is none.
func (l *link) setBackend(c *mysqlconn.Conn) {
	l.backend = c
	l.peer.Store(c)
}

// keepReading has no hang-up of the client wake reads from the backend from now on.
func (l *link) keepReading() { l.peer.Store(nil) }

// switchBackend closes the backend's connection, and continues with another one. attach has to follow.
func (l *link) switchBackend(c *mysqlconn.Conn) {
	_ = l.backend.SetWriteDeadline(time.Now().Add(lastWrite))
	l.backend.Seq = 0
	_ = l.backend.WriteMessage([]byte{byte(mysqlwire.ComQuit)})
	l.backend.Discard(len(l.backend.Buffered()))
	l.unshareBuffer(backendSide)
	l.backend.Close()
	l.setBackend(c)
	l.acknowledge(causeBackendGone)
}

// attach makes the backend's connection the task's.
func (l *link) attach() error {
	if err := l.task.Attach(onLoop(l.backend)); err != nil {
		return fmt.Errorf("%w: %w", errBackendGone, err)
	}
	if l.readers != nil {
		l.shareBuffers()
	}
	l.wake(l.occurred()) // an interruption during the move to the loop
	return nil
}

// detach takes the connections off their loop: they can be used by other goroutines then.
func (l *link) detach() error {
	for _, c := range [...]*mysqlconn.Conn{l.client, l.backend} {
		if err := onLoop(c).Detach(); err != nil {
			return fmt.Errorf("%w: %w", errBackendGone, err)
		}
	}
	l.wake(l.occurred()) // an interruption while the session left the loop
	return nil
}

// releaseBuffers returns borrowed and shared buffers. The connections can only be closed afterwards.
func (l *link) releaseBuffers() {
	l.client.Discard(len(l.client.Buffered()))
	if l.backend != nil {
		l.backend.Discard(len(l.backend.Buffered()))
	}
	l.returnBuffers()
	l.unshareBuffer(clientSide)
	l.unshareBuffer(backendSide)
}

// close closes both connections.
func (l *link) close() {
	l.client.Close()
	if l.backend != nil {
		l.backend.Close()
	}
}

// occurred returns the causes that have occurred and were not acknowledged.
func (l *link) occurred() uint32 { return l.causes.Load() }

// acknowledge forgets causes that were handled.
func (l *link) acknowledge(causes uint32) { l.causes.And(^causes) }

// pokes returns a channel on which interrupt reports each cause, until noPokes.
func (l *link) pokes() <-chan struct{} {
	c := make(chan struct{}, 1)
	l.poke.Store(&c)
	return c
}

func (l *link) noPokes() { l.poke.Store(nil) }

// endsHalf handles the end of the client's stream. It reports whether the connection is closed: a client that has closed
// its sending side may read on.
func (l *link) endsHalf() (closed bool) {
	l.acknowledge(causeClientGone)
	if onLoop(l.client).Closed() {
		return true
	}
	l.halfClosed = true
	return false
}

// heap returns the bytes of the read buffers that belong to the session, and of TLS.
func (l *link) heap() int64 {
	bytes := int64(heapsize.Object(uintptr(l.bufferSize(clientSide)), false) + heapsize.Object(uintptr(l.bufferSize(backendSide)), false))
	for at, c := range [...]*mysqlconn.Conn{clientSide: l.client, backendSide: l.backend} {
		if c.IsTLS() {
			bytes += tlsBytes
			if l.long[at] {
				bytes += tlsLongBytes
			}
		}
	}
	return bytes
}

// size returns a number that changes with heap.
func (l *link) size() int {
	n := l.bufferSize(clientSide) + l.bufferSize(backendSide)
	for _, long := range l.long {
		if long {
			n++
		}
	}
	return n
}

// drain discards bytes from the client for at most a second.
func (l *link) drain() {
	_ = l.client.SetReadDeadline(time.Now().Add(time.Second))
	for {
		l.client.Discard(len(l.client.Buffered()))
		if err := l.client.Fill(); err != nil {
			return
		}
	}
}

func (l *link) conn(at side) *mysqlconn.Conn {
	if at == clientSide {
		return l.client
	}
	return l.backend
}

// clientSecure reports whether the client connection is protected from eavesdropping: it uses TLS, or a Unix
// socket, which clients and servers treat as secure.
func (l *link) clientSecure() bool { return l.client.IsTLS() || l.local }

// notifiedEnd reports whether a client that uses TLS sent a notice before it closed its sending side.
func (l *link) notifiedEnd() bool {
	conn, ok := l.client.NetConn().(*tls.Conn)
	if !ok {
		return false
	}
	records, ok := conn.NetConn().(*recordConn)
	return ok && records.endsWithAlert()
}

// copyBothWays relays both directions with two goroutines, outside the loop.
func (l *link) copyBothWays() error {
	done := make(chan error, 1)
	go func() {
		err := panics.Guard(func() error {
			err := copyFrom(l.backend.NetConn(), buffered(l.client))
			if !errors.Is(err, errPipeWrite) { // after a failed write, reads return the bytes the backend sent, then its end
				_ = l.backend.SetDeadline(past)
			}
			return err
		})
		if panics.Of(err) != nil {
			_ = l.backend.SetDeadline(past)
		}
		done <- err
	}()
	err := copyFrom(l.client.NetConn(), buffered(l.backend))
	_ = l.client.SetDeadline(past)
	if p := panics.Of(<-done); p != nil {
		panic(p) // in the session's task, which reports it
	}
	if l.occurred()&causeDrainLimit != 0 {
		return errDrained
	}
	return fmt.Errorf("%w: a piped command ended: %v", errQuit, err) //nolint:errorlint // however the pipe broke, the session ended by leaving
}

// Causes for waking a session's waiting read. Other goroutines set the bits; the session reads them when a
// read ends by its deadline.
const (
	causeClientGone  uint32 = 1 << iota // the client hung up
	causeBackendGone                    // the backend hung up
	causeIdle                           // no command within the idle timeout
	causeDrain                          // Tare shuts down: end between commands outside transactions
	causeDrainLimit                     // Tare shuts down: end now
	causeMove                           // sessions move to the other side
	causeKilled                         // an operator killed the session
	causeQueryKilled                    // a KILL QUERY reached a command that waits for a shared connection, or for its response there

	causeEnd = causeDrainLimit | causeKilled // end now
)

// side identifies one of the two connections of a session.
type side uint8

const (
	clientSide side = iota
	backendSide
)

// past is a deadline that wakes a waiting read.
var past = time.Unix(1, 0) //nolint:gochecknoglobals // a constant that the language cannot express

// hungUp handles a peer that closed its connection. The session's loop calls it. The session may be waiting
// for the other side; hungUp wakes it.
func (l *link) hungUp(c *netloop.Conn) {
	if c == l.client.Socket() {
		l.interrupt(causeClientGone)
	} else {
		l.interrupt(causeBackendGone)
	}
}

// interrupt sets the cause and wakes the read that it concerns.
func (l *link) interrupt(cause uint32) {
	l.causes.Or(cause)
	l.wake(cause)
	if l.pausing.Load() {
		l.task.Wake()
	}
	if poke := l.poke.Load(); poke != nil {
		select {
		case *poke <- struct{}{}:
		default: // another wake-up is pending
		}
	}
}

func (l *link) wake(cause uint32) {
	if cause&(causeBackendGone|causeIdle|causeDrain|causeMove|causeEnd) != 0 {
		_ = l.client.SetReadDeadline(past)
	}
	if b := l.peer.Load(); b != nil && cause&(causeClientGone|causeEnd) != 0 {
		_ = b.SetReadDeadline(past)
		_ = b.SetWriteDeadline(time.Now().Add(lastWrite))
	}
	switch {
	case cause&causeEnd != 0:
		_ = l.client.SetWriteDeadline(time.Now().Add(lastWrite))
	case cause&causeBackendGone != 0: // bytes it sent before may still be in flight
		_ = l.client.SetWriteDeadline(time.Now().Add(slowReader))
	}
}

// Time limits of writes to a peer that is no longer waited for: to one that is about to be disconnected, and
// to a client that reads the rest of a long result slowly (MySQL's net_write_timeout).
const (
	lastWrite  = time.Second
	slowReader = time.Minute
)

// setDeadlines bounds reads and writes on both sides, and wakes them again for pending causes that are not in
// handled, so that a concurrent interruption is not lost.
func (l *link) setDeadlines(t time.Time, handled uint32) error {
	err := l.client.SetDeadline(t)
	if l.backend != nil {
		err = errors.Join(err, l.backend.SetDeadline(t))
	}
	l.wake(l.occurred() &^ handled)
	return err
}

// clearDeadlines removes the deadlines.
func (l *link) clearDeadlines(handled uint32) error {
	return l.setDeadlines(time.Time{}, handled)
}

// passEnd closes the sending side of the backend connection if the client has closed its own and all of its commands were
// forwarded: a server that waits, as for a lock of GET_LOCK, checks it. The first n buffered bytes are of the current command.
func (l *link) passEnd(n int) {
	for l.client.Room() > 0 { // the client's last bytes have arrived
		err := l.client.Fill()
		if isTimeout(err) {
			return
		}
		if err != nil {
			break
		}
	}
	if l.client.Room() == 0 || len(l.client.Buffered()) > n {
		return // more commands follow
	}
	l.halfClosed = false
	l.endBackend()
}

// endBackend closes the sending side of the backend connection as the client has closed its own. With TLS a notice comes
// before the end if the client sent one: MySQL responds to it, and MariaDB takes it for bytes of a client that is there.
func (l *link) endBackend() {
	if l.ended {
		return
	}
	l.ended = true
	if conn, ok := l.backend.NetConn().(*tls.Conn); ok && l.notifiedEnd() {
		_ = conn.CloseWrite()
	}
	_ = onLoop(l.backend).CloseWrite()
}

// relayEnd closes the sending side of the backend connection after the client has closed its own, and relays the server's
// last bytes: MySQL sends an error.
func (l *link) relayEnd() {
	if l.task == nil || onLoop(l.client).Closed() {
		return
	}
	l.endBackend()
	l.relayRemaining()
}

// relayRemaining relays the bytes that the backend sent before it hung up, such as the error naming the reason.
func (l *link) relayRemaining() {
	_ = l.backend.SetReadDeadline(time.Now().Add(time.Second))
	_ = l.client.SetWriteDeadline(time.Now().Add(time.Second))
	for {
		if b := l.backend.Buffered(); len(b) > 0 {
			if _, err := l.client.Write(b); err != nil {
				return
			}
			l.backend.Discard(len(b))
		}
		if l.backend.Fill() != nil {
			return
		}
	}
}

// onLoop returns the connection below c, which a loop can take over.
func onLoop(c *mysqlconn.Conn) *netloop.Conn {
	if below := collectorOf(c); below != nil {
		return below.Conn
	}
	return c.Socket().(*netloop.Conn)
}

// collectorOf returns the connection below the TLS of a shared one, or nil.
func collectorOf(c *mysqlconn.Conn) *netloop.Collector {
	below, _ := c.Socket().(*netloop.Collector)
	return below
}

// shareBackend gives the connection a read buffer of the loop, unless it has its own.
func (l *link) shareBackend() {
	if l.backend.NetConn() != l.backend.Socket() {
		return
	}
	l.backend.SwapBuffer(l.readers.get(backendSide))
	l.shared[backendSide] = true
}
