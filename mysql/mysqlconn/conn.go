package mysqlconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// defaultBuffer is the size in bytes of New's read buffer.
const defaultBuffer = 4 << 10

// maxEmptyReads bounds how often a Read may return nothing without an error.
const maxEmptyReads = 100

var (
	// ErrBufferFull reports that Fill found no room: the caller must consume bytes or call SwapBuffer.
	ErrBufferFull = errors.New("connection buffer is full")

	// ErrSequence reports a packet with an unexpected sequence number.
	ErrSequence = errors.New("mysql packets out of order")

	// ErrTooLarge reports a message longer than the limit passed to ReadMessage.
	ErrTooLarge = errors.New("mysql message larger than its limit")

	errNoProgress = errors.New("connection read returned nothing repeatedly")
)

// A Conn is one side of a MySQL connection: a socket, the bytes read and not yet consumed, and the packets
// appended and not yet written. Header and buffers are fields of the struct: a header on the stack would
// escape to the heap for each packet, since it passes through an interface.
//
// A Conn is used by one goroutine; only SetDeadline, SetReadDeadline, SetWriteDeadline and Close are safe for
// concurrent use.
type Conn struct {
	nc  net.Conn // the socket, or a *tls.Conn over it, or a *stored over either
	raw net.Conn // the socket
	tls bool     // Upgrade was called

	buf  []byte // buf[r:w] is read and not consumed
	r, w int

	out []byte // whole packets for the next Flush

	watch   *watch   // nil: no limit on the peer's silence
	account *account // nil: its heap bytes are not counted

	// Seq is the sequence number of the next packet in either direction. ReadMessage and AppendMessage
	// maintain it; users of Buffered have to maintain it themselves.
	Seq uint8
}

// New returns a Conn over an open socket, with a read buffer of defaultBuffer bytes.
func New(nc net.Conn) *Conn { return NewBuffer(nc, make([]byte, defaultBuffer)) }

// NewBuffer returns a Conn that reads into buf.
func NewBuffer(nc net.Conn, buf []byte) *Conn {
	return &Conn{nc: nc, raw: nc, buf: buf}
}

// Buffered returns a view of the bytes read and not consumed, valid until the next call of Fill,
// SwapBuffer or ReadMessage.
func (c *Conn) Buffered() []byte { return c.buf[c.r:c.w:c.w] }

// Discard consumes the first n bytes of Buffered.
func (c *Conn) Discard(n int) {
	if n > c.w-c.r {
		panic("BUG: Discard past the buffered bytes")
	}
	c.r += n
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
}

// Fill reads once from the socket and appends the bytes to Buffered. It blocks until at least one byte
// arrives. It returns io.EOF if the peer has closed or reset the connection. It does not allocate.
func (c *Conn) Fill() error {
	if c.w == len(c.buf) {
		if c.r == 0 {
			return ErrBufferFull
		}
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	for range maxEmptyReads {
		n, err := c.readOnce(c.buf[c.w:])
		c.w += n
		if c.account != nil {
			c.account.read(n, c.w == len(c.buf))
		}
		switch {
		case n > 0:
			return nil // the next Read returns the error again
		case err != nil:
			return readError(err)
		}
	}
	return errNoProgress
}

func (c *Conn) readOnce(p []byte) (int, error) {
	if c.watch != nil {
		return c.watch.read(p)
	}
	return c.nc.Read(p)
}

// Need reads until at least n bytes are buffered; the buffer must have room for them. The error at an end of
// file is io.EOF if nothing is buffered, otherwise io.ErrUnexpectedEOF.
func (c *Conn) Need(n int) error {
	for c.w-c.r < n {
		if err := c.Fill(); err != nil {
			if errors.Is(err, io.EOF) && c.w > c.r {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

func readError(err error) error {
	if errors.Is(err, syscall.ECONNRESET) {
		return io.EOF
	}
	return err
}

// Size returns the size of the read buffer in bytes.
func (c *Conn) Size() int { return len(c.buf) }

// Room returns the number of bytes that Fill can read without moving the buffered ones.
func (c *Conn) Room() int { return len(c.buf) - c.w }

// SwapBuffer makes c read into buf, copies unconsumed bytes to it, and returns the old buffer. buf must have
// room for the buffered bytes.
func (c *Conn) SwapBuffer(buf []byte) (old []byte) {
	if len(buf) < c.w-c.r {
		panic("BUG: SwapBuffer to a buffer too small for what is buffered")
	}
	old = c.buf
	c.w = copy(buf, c.buf[c.r:c.w])
	c.r, c.buf = 0, buf
	c.account.weigh()
	return old
}

// Insert makes room for n bytes before the byte at offset at of Buffered and returns them for the caller to
// fill. The buffer must have room: see Size.
func (c *Conn) Insert(at, n int) []byte {
	if at > c.w-c.r || c.w-c.r+n > len(c.buf) {
		panic("BUG: Insert past the buffered bytes or the buffer")
	}
	if c.w+n > len(c.buf) {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	at += c.r
	copy(c.buf[at+n:], c.buf[at:c.w])
	c.w += n
	return c.buf[at : at+n : at+n]
}

// Write writes b, whole packets or parts of them, unchanged.
func (c *Conn) Write(b []byte) (int, error) {
	if c.watch != nil {
		return c.watch.write(b)
	}
	return c.nc.Write(b)
}

// ReadMessage reads the next message: one packet, or several joined if the payload exceeds one packet. Their
// sequence numbers must be consecutive from c.Seq. The payload is a view of the buffer, valid until the next
// read. The buffer grows up to limit bytes as required and does not shrink: meant for logins and control
// statements, not for results.
func (c *Conn) ReadMessage(limit int) ([]byte, error) { return c.readMessage(limit, estimate{}) }

// An estimate returns the approximate length of a long message, so that the buffer grows once. The zero value
// has none, and the buffer doubles.
type estimate struct {
	of    func(first []byte) int
	first int // bytes of the message that of is called with; 0: the first packet
}

// readMessage is ReadMessage with an estimate.
func (c *Conn) readMessage(limit int, e estimate) ([]byte, error) {
	if err := c.Need(mysqlwire.HeaderLen); err != nil {
		return nil, err
	}
	have := 0 // payload bytes at buf[r+HeaderLen:]
	for {
		at := have
		if have > 0 {
			at += mysqlwire.HeaderLen
		}
		if err := c.need(at+mysqlwire.HeaderLen, limit); err != nil {
			return nil, err
		}
		h := mysqlwire.ParseHeader(c.buf[c.r+at:])
		if h.Seq != c.Seq {
			return nil, c.outOfOrder(h, at)
		}
		c.Seq++
		long := have == 0 && h.Len == mysqlwire.MaxPayload && e.of != nil
		if long && e.first > 0 {
			if err := c.grow(e.first, limit, e); err != nil {
				return nil, err
			}
		}
		if err := c.need(at+mysqlwire.HeaderLen+h.Len, limit); err != nil {
			return nil, err
		}
		if have > 0 { // close the gap left by the later header
			b := c.buf[c.r:c.w]
			copy(b[at:], b[at+mysqlwire.HeaderLen:])
			c.w -= mysqlwire.HeaderLen
		}
		if long && e.first == 0 {
			if err := c.grow(h.Len, limit, e); err != nil {
				return nil, err
			}
		}
		have += h.Len
		if h.Len < mysqlwire.MaxPayload {
			start := c.r + mysqlwire.HeaderLen
			c.r = start + have
			return c.buf[start:c.r:c.r], nil
		}
	}
}

// grow makes the buffer as large as e estimates by the first bytes of a message.
func (c *Conn) grow(first, limit int, e estimate) error {
	if err := c.need(mysqlwire.HeaderLen+first, limit); err != nil {
		return err
	}
	start := c.r + mysqlwire.HeaderLen
	if size := 2*mysqlwire.HeaderLen + min(e.of(c.buf[start:start+first]), limit); size > len(c.buf) {
		c.SwapBuffer(make([]byte, size))
	}
	return nil
}

// need is Need with a buffer that grows up to limit bytes of payload.
func (c *Conn) need(n, limit int) error {
	if n > limit+2*mysqlwire.HeaderLen {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, n, limit)
	}
	if n > len(c.buf) {
		c.SwapBuffer(make([]byte, max(n, min(2*len(c.buf), limit+2*mysqlwire.HeaderLen))))
	}
	err := c.Need(n)
	if errors.Is(err, io.EOF) && n > mysqlwire.HeaderLen {
		return io.ErrUnexpectedEOF
	}
	return err
}

// maxFarewell bounds the packet of a farewellError.
const maxFarewell = 1 << 10

// A farewellError is what a server has sent before it closed a connection on which it waited for a command, as MySQL does after
// wait_timeout. It is found in place of the response to the next command, which the server has not read. It is an
// io.ErrUnexpectedEOF and no ServerError.
type farewellError struct{ sent error }

func (e *farewellError) Error() string {
	return "the server has closed the connection: " + e.sent.Error()
}

func (*farewellError) Unwrap() error { return io.ErrUnexpectedEOF }

// outOfOrder returns the error for a packet with an unexpected sequence number, whose header is at buf[r+at:].
func (c *Conn) outOfOrder(h mysqlwire.Header, at int) error {
	wrong := fmt.Errorf("%w: sequence number %d, want %d", ErrSequence, h.Seq, c.Seq)
	if h.Seq != 0 || at != 0 || h.Len == 0 || h.Len > maxFarewell || c.need(mysqlwire.HeaderLen+h.Len, maxFarewell) != nil {
		return wrong
	}
	payload := c.buf[c.r+mysqlwire.HeaderLen:][:h.Len]
	if payload[0] != mysqlwire.MarkErr {
		return wrong
	}
	sent := decodeServerError(payload, "")
	if _, ok := errors.AsType[*ServerError](sent); !ok {
		return wrong
	}
	return &farewellError{sent}
}

// ReadExactly reads one packet and not a byte more: the following bytes may be the start of a TLS handshake,
// which belong to crypto/tls. Nothing must be buffered.
func (c *Conn) ReadExactly(limit int) ([]byte, error) {
	if c.r != c.w {
		panic("BUG: ReadExactly with buffered bytes")
	}
	if _, err := io.ReadFull(c.nc, c.buf[:mysqlwire.HeaderLen]); err != nil {
		return nil, readError(err)
	}
	h := mysqlwire.ParseHeader(c.buf)
	if h.Seq != c.Seq {
		return nil, fmt.Errorf("%w: sequence number %d, want %d", ErrSequence, h.Seq, c.Seq)
	}
	c.Seq++
	if h.Len > limit {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, h.Len, limit)
	}
	if h.Len > len(c.buf) {
		c.buf = make([]byte, h.Len)
	}
	if _, err := io.ReadFull(c.nc, c.buf[:h.Len]); err != nil {
		if err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, readError(err)
	}
	return c.buf[:h.Len:h.Len], nil
}

// AppendMessage appends payload as one message, in one or several packets, for the next Flush.
func (c *Conn) AppendMessage(payload []byte) {
	c.out, c.Seq = mysqlwire.AppendPacket(c.out, payload, c.Seq)
}

// Flush writes the packets of AppendMessage in one call.
func (c *Conn) Flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.Write(c.out)
	if cap(c.out) > defaultBuffer {
		c.out = nil
	}
	c.out = c.out[:0]
	return err
}

// DropWriteBuffer releases the buffer of AppendMessage, which keeps its size between messages. Nothing may be appended.
func (c *Conn) DropWriteBuffer() {
	if len(c.out) > 0 {
		panic("BUG: DropWriteBuffer with appended packets")
	}
	c.out = nil
}

// writeParts writes a message in two parts, the first of them short, without copying the second.
func (c *Conn) writeParts(head, body []byte) error {
	for size := len(head) + len(body); ; {
		n := min(size, mysqlwire.MaxPayload)
		c.out = append(mysqlwire.Header{Len: n, Seq: c.Seq}.AppendTo(c.out), head...)
		c.Seq++
		if err := c.Flush(); err != nil {
			return err
		}
		if part := n - len(head); part > 0 {
			if _, err := c.Write(body[:part]); err != nil {
				return err
			}
			body = body[part:]
		}
		head, size = nil, size-n
		if n < mysqlwire.MaxPayload {
			return nil
		}
	}
}

// WriteMessage appends payload and flushes.
func (c *Conn) WriteMessage(payload []byte) error {
	c.AppendMessage(payload)
	return c.Flush()
}

// Upgrade makes c use nc, a TLS connection over the same socket. Nothing may be buffered in either direction.
func (c *Conn) Upgrade(nc net.Conn) {
	if c.r != c.w || len(c.out) > 0 {
		panic("BUG: Upgrade with buffered bytes")
	}
	c.nc, c.tls = nc, true
}

// NetConn returns the connection that c reads and writes: the socket or the TLS connection over it.
func (c *Conn) NetConn() net.Conn { return c.nc }

// Socket returns the underlying socket, with or without TLS.
func (c *Conn) Socket() net.Conn { return c.raw }

// IsTLS reports whether Upgrade was called.
func (c *Conn) IsTLS() bool { return c.tls }

// SetReadDeadline sets the deadline of all reads; a time in the past interrupts a waiting one.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.raw.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of all writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// SetDeadline sets the deadline of all reads and writes.
func (c *Conn) SetDeadline(t time.Time) error { return c.raw.SetDeadline(t) }

// Close closes the socket without a command to the peer; a TLS connection first sends its close_notify if
// that does not block. A close_notify that cannot be delivered because the peer has closed is not an error.
func (c *Conn) Close() error {
	c.account.close()
	err := c.nc.Close()
	if c.IsTLS() && !errors.Is(err, net.ErrClosed) {
		return nil // the socket is closed: see tls.Conn.Close
	}
	return err
}
