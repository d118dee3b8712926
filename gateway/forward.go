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
func (s *session) forward(t *longStatement) error {
	if s.msg.whole {
		if _, err := s.backend.Write(s.client.Buffered()[:s.msg.size]); err != nil {
			return s.writeFailed(err)
		}
		return nil
	}
	return s.stream(t, false)
}

// stream forwards or discards a command that is longer than its buffered part.
func (s *session) stream(t *longStatement, discard bool) error {
	h := mysqlwire.ParseHeader(s.client.Buffered())
	p := packets{size: h.Len, left: h.Len, last: h.Len < mysqlwire.MaxPayload}
	at, sent := mysqlwire.HeaderLen, false
	for {
		b := s.client.Buffered()
		n, err := p.walk(b, at, t)
		if err != nil {
			return s.violation(p.seq+1, mysqlwire.ErrnoPacketsOutOfOrder, err.Error())
		}
		s.msg.size, s.msg.body = 0, nil
		at = 0
		switch {
		case p.done:
			s.msg.seq = p.seq
			if t != nil {
				if e := t.before(); e != nil {
					return s.refuseLong(t, e, b[:n], p.size, sent)
				}
			}
		case t != nil:
			discard = discard || s.refusedParts(b[:n], p.size-p.left, sent)
			at = min(n, heldBack)
			n -= at
		}
		if discard {
			s.client.Discard(n)
			s.rec.BytesIn += uint64(n)
		} else if err := s.forwardClient(n); err != nil {
			return err
		}
		if p.done {
			return nil
		}
		sent = sent || n > 0 && !discard
		if err := s.fillClient(); err != nil {
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
func (s *session) writeFailed(err error) error {
	_ = s.backend.SetReadDeadline(time.Now().Add(time.Second))
	for s.backend.Fill() == nil && len(s.backend.Buffered()) < s.backend.Size() {
		continue
	}
	b := s.backend.Buffered()
	if !isErrorPacket(b) {
		return s.backendGone(err)
	}
	_, _ = s.client.Write(b)
	s.drainClient()
	return fmt.Errorf("%w: pass a command on: %w", errBackendGone, err)
}

// drainClient discards the current command and further bytes from the client for at most a second.
func (s *session) drainClient() {
	s.msg.size = 0
	s.drain()
}

// consume removes the current command from the client's buffer.
func (s *session) consume() {
	s.client.Discard(s.msg.size)
	s.msg.size = 0
	s.msg.body = nil
}

func isErrorPacket(b []byte) bool {
	return len(b) > mysqlwire.HeaderLen && b[mysqlwire.HeaderLen] == mysqlwire.MarkErr &&
		mysqlwire.ParseHeader(b).Len == len(b)-mysqlwire.HeaderLen
}

// pipe relays both directions uninspected until either ends. The response to a BINLOG DUMP or to the subscription
// of group replication is a stream, after which servers close the connection. A server that refuses the command reads the next one, which has to be
// checked and recorded like any other.
func (s *session) pipe() error {
	if err := s.forward(nil); err != nil {
		return err
	}
	s.consume()
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1)
	for len(s.backend.Buffered()) <= mysqlwire.HeaderLen {
		if err := s.fillBackend(); err != nil {
			return err
		}
	}
	if s.backend.Buffered()[mysqlwire.HeaderLen] == mysqlwire.MarkErr {
		return s.relay()
	}
	s.phase.Store(phasePipe)
	if err := s.detach(); err != nil {
		return err
	}
	var err error
	s.task.Block(func() { err = s.copyBothWays() })
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
