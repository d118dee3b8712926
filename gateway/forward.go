package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// forward passes the current command to the backend: a buffered command in one write, a longer one in pieces
// as they arrive, which t digests unless it is nil. The buffered bytes stay in the client's buffer until
// consume.
func (x *relayer) forward(t *longStatement) error {
	if x.lease.sent {
		x.lease.asks, x.lease.asked = false, x.lease.asks
		return nil
	}
	if x.msg.whole {
		b := x.client.Buffered()[:x.msg.size]
		if x.lease.asks {
			x.lease.asks, x.lease.asked = false, true
			x.lease.scratch = append(append(x.lease.scratch[:0], b...), ping[:]...)
			b = x.lease.scratch
		}
		if _, err := x.backend.Write(b); err != nil {
			return x.writeFailed(err)
		}
		return nil
	}
	return x.stream(t, false)
}

// stream forwards or discards a command that is longer than its buffered part.
func (x *relayer) stream(t *longStatement, discard bool) error {
	h := mysqlwire.ParseHeader(x.client.Buffered())
	p := packets{size: h.Len, left: h.Len, last: h.Len < mysqlwire.MaxPayload}
	at, sent := mysqlwire.HeaderLen, false
	for {
		b := x.client.Buffered()
		n, err := p.walk(b, at, t)
		if err != nil {
			return x.violation(p.seq+1, mysqlwire.ErrnoPacketsOutOfOrder, err.Error())
		}
		x.msg.size, x.msg.body = 0, nil
		at = 0
		switch {
		case p.done:
			x.msg.seq = p.seq
			if t != nil {
				if e := t.before(); e != nil {
					return t.refuseLong(t, e, b[:n], p.size, sent)
				}
			}
		case t != nil:
			discard = discard || x.refusedParts(b[:n], p.size-p.left, sent)
			at = min(n, heldBack)
			n -= at
		}
		if discard {
			x.client.Discard(n)
			x.rec.BytesIn += uint64(n)
		} else if err := x.forwardClient(n); err != nil {
			return err
		}
		if p.done {
			return nil
		}
		sent = sent || n > 0 && !discard
		if err := x.fillClient(); err != nil {
			return err
		}
	}
}

// heldBack is the number of bytes of a long statement that are forwarded only once the rules have allowed it.
const heldBack = 64

// packets follows a message over the packets it is split into.
type packets struct {
	size int   // payload bytes of the current packet
	left int   // those of them still to come
	last bool  // the current packet is the message's last
	seq  uint8 // of the current packet
	done bool
}

// walk scans b from at, passes payload to t, and returns the number of bytes of b that belong to the message
// and can be forwarded.
func (p *packets) walk(b []byte, at int, t *longStatement) (n int, err error) {
	n = at
	for {
		k := min(p.left, len(b)-n)
		if k > 0 && t != nil {
			t.see(b[n : n+k])
		}
		n, p.left = n+k, p.left-k
		if p.left > 0 {
			return n, nil
		}
		if p.last {
			p.done = true
			return n, nil
		}
		if len(b)-n < mysqlwire.HeaderLen {
			return n, nil
		}
		h := mysqlwire.ParseHeader(b[n:])
		if h.Seq != p.seq+1 {
			//nolint:staticcheck // it begins as the server's own message for error 1156 does
			return n, fmt.Errorf("Got packets out of order: sequence number %d within a command, want %d", h.Seq, p.seq+1)
		}
		p.seq, p.size, p.left, p.last = h.Seq, h.Len, h.Len, h.Len < mysqlwire.MaxPayload
		n += mysqlwire.HeaderLen
	}
}

// writeFailed handles a failed write to the backend. A server that refuses a message, for example for its
// size, sends an error before it closes; that error is relayed. The remaining bytes from the client are then
// discarded for a short time, because closing with unread bytes would destroy the error on its way to the
// client. Without such an error the connection is closed: see backendGone.
func (x *relayer) writeFailed(err error) error {
	_ = x.backend.SetReadDeadline(time.Now().Add(time.Second))
	for x.backend.Fill() == nil && len(x.backend.Buffered()) < x.backend.Size() {
		continue
	}
	b := x.backend.Buffered()
	if !isErrorPacket(b) {
		return x.backendGone(err)
	}
	_, _ = x.client.Write(b)
	x.drainClient()
	return fmt.Errorf("%w: pass a command on: %w", errBackendGone, err)
}

// drainClient discards the current command and further bytes from the client for at most a second.
func (x *relayer) drainClient() {
	x.msg.size = 0
	x.drain()
}

// consume removes the current command from the client's buffer.
func (x *relayer) consume() {
	x.client.Discard(x.msg.size)
	x.msg.size = 0
	x.msg.body = nil
}

func isErrorPacket(b []byte) bool {
	return len(b) > mysqlwire.HeaderLen && b[mysqlwire.HeaderLen] == mysqlwire.MarkErr &&
		mysqlwire.ParseHeader(b).Len == len(b)-mysqlwire.HeaderLen
}

// pipe relays both directions uninspected until either ends. The response to a BINLOG DUMP or to the subscription
// of group replication is a stream, after which servers close the connection. A server that refuses the command reads the next one, which has to be
// checked and recorded like any other.
func (x *relayer) pipe() error {
	if err := x.forward(nil); err != nil {
		return err
	}
	x.consume()
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1)
	for len(x.backend.Buffered()) <= mysqlwire.HeaderLen {
		if err := x.fillBackend(); err != nil {
			return err
		}
	}
	if x.backend.Buffered()[mysqlwire.HeaderLen] == mysqlwire.MarkErr {
		return x.relay()
	}
	x.phase.Store(phasePipe)
	if err := x.detach(); err != nil {
		return err
	}
	var err error
	x.task.Block(func() { err = x.copyBothWays() })
	return err
}

var errPipeWrite = errors.New("write to the other side")

// copyFrom copies from r to w until either fails. io.EOF from r is not an error; a failed write returns an
// errPipeWrite.
func copyFrom(w io.Writer, r io.Reader) error {
	buf := make([]byte, pipeBuffer)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return fmt.Errorf("%w: %w", errPipeWrite, werr)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

const pipeBuffer = 32 << 10

// buffered returns a reader of c's buffered bytes followed by its connection.
func buffered(c *mysqlconn.Conn) io.Reader {
	b := bytes.Clone(c.Buffered())
	c.Discard(len(b))
	return io.MultiReader(bytes.NewReader(b), c.NetConn())
}

// bufferCommand reads the command's first packet, up to n bytes.
func (x *relayer) bufferCommand(n int) error {
	total := min(mysqlwire.HeaderLen+mysqlwire.ParseHeader(x.client.Buffered()).Len, n)
	if total > x.client.Size() {
		x.borrowClient(total)
	}
	if err := x.readRest(total); err != nil {
		return err
	}
	x.msg.size = total
	x.msg.body = x.client.Buffered()[mysqlwire.HeaderLen:total:total]
	return nil
}

// readRest reads the command up to n bytes.
func (x *relayer) readRest(n int) error {
	for len(x.client.Buffered()) < n {
		if err := x.fillClient(); err != nil {
			return err
		}
	}
	return nil
}

// fillClient reads more of a command whose first bytes have arrived. It returns errPauseBegun if the session has to join a
// pause first; the client's time to send the command continues meanwhile.
func (x *relayer) fillClient() error {
	if !x.reading.Load() {
		x.markReading(true)
	}
	err := x.fillCommand()
	if !errors.Is(err, errPauseBegun) {
		x.markReading(false)
	}
	return err
}

func (x *relayer) fillCommand() error {
	for {
		err := x.client.Fill()
		switch {
		case err == nil:
			return nil
		case isTimeout(err):
			if err := x.interruptedBusy(); err != nil {
				return err
			}
		case errors.Is(err, mysqlconn.ErrBufferFull):
			panic("BUG: a command longer than the buffer that was taken for it")
		default:
			return fmt.Errorf("%w: within a command: %w", errClientDisconnected, err)
		}
	}
}

// markReading marks the session as waiting for the rest of a command; the sweeper reads the mark.
func (x *relayer) markReading(waits bool) {
	if x.srv.opts.IdleTimeout > 0 {
		x.idleSince.Store(int64(time.Since(x.srv.started)))
		x.reading.Store(waits)
	}
}

// discardRest reads the rest of a command that is not buffered whole, and discards it.
func (x *relayer) discardRest() error {
	if x.msg.whole {
		return nil
	}
	return x.stream(nil, true)
}

// insertTypes inserts the parameter types into the current EXECUTE, whose flag for them is at offset at.
func (x *relayer) insertTypes(at int, types []byte) {
	x.msg.body[at] = 1
	if want := len(x.client.Buffered()) + len(types); want > x.client.Size() {
		x.borrowClient(want)
	}
	copy(x.client.Insert(mysqlwire.HeaderLen+at+1, len(types)), types)
	x.msg.size += len(types)
	b := x.client.Buffered()
	x.msg.body = b[mysqlwire.HeaderLen:x.msg.size:x.msg.size]
	n := len(x.msg.body)
	b[0], b[1], b[2] = byte(n), byte(n>>8), byte(n>>16)
}
