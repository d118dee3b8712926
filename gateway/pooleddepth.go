package gateway

import (
	"time"
	"unsafe"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A pipe is the part of a shared connection on which short reads of several sessions are in flight: the holder's, whose response comes
// next, and those of the sessions behind it, which are passed the connection one after the other.
type pipe struct {
	out     []byte    // statements of sessions behind the holder that are still to be written: at the end of the loop's turn, in one write
	writing bool      // the socket took only a part of them: the next holder writes the rest
	queued  bool      // in lender.unsent
	turn    time.Time // since when the holder's statement has been the first
	closed  bool
}

const (
	maxBehind = 4 << 10  // the longest statement that is sent behind others, in bytes
	maxUnsent = 16 << 10 // bytes of them that are collected

	slowAfter = 10 * time.Millisecond // others wait behind a statement that has taken less until now
)

// brisk reports whether others may send their statements behind the holder's.
func (c *sharedConn) brisk(slow time.Duration) bool {
	return !c.pipe.writing && time.Since(c.pipe.turn) < slow
}

// planFirst makes the plan of the current statement before the session has a connection: it decides whether the statement may be sent
// behind others. st is the prepared one that the command names.
func (s *session) planFirst(st *preparedStatement) {
	l := &s.lease
	if s.srv.opts.Pool.Depth < 2 || !s.msg.whole || s.msg.size > maxBehind || s.modes.unknown {
		return
	}
	switch s.msg.cmd {
	case mysqlwire.ComQuery:
		sql, err := sqlOf(s.msg.body, s.caps)
		if err != nil {
			return
		}
		s.beginRecord()
		s.modes.followRules()
		s.planWhole(sql)
	case mysqlwire.ComStmtExecute:
		if st == nil || st.holds() || st.refused != nil || len(st.text) == 0 {
			return
		}
		if s.msg.cursor = cursorUse(s.msg.body, st, s.modes.maria); s.msg.cursor != mysqlwire.CursorUnused {
			return
		}
		s.beginRecord()
		s.modes.followRules()
		s.identify(st)
		s.findPrepared(st)
		l.statement = st
	default:
		return
	}
	l.planned, l.scope, s.sent = true, s.modes.scope, time.Time{}
	l.reads = s.plan.Type() == sqlplan.TypeSelect && s.plan.ReadOnly() && s.plan.Effects() == 0 && s.usesTable() && !s.unreadable &&
		s.modes.status.Has(mysqlwire.StatusAutocommit)
	if verdict, _ := s.plan.Verdict(); verdict != sqlplan.VerdictPass {
		return
	}
	l.waiter.Alone = !l.reads || !l.pool.lender.reads.has(s.rec.Digest)
}

// wasPlanned reports whether planFirst has made the current statement's plan, and the plan still holds.
func (x *executor) wasPlanned() bool {
	l := &x.lease
	if !l.planned {
		return false
	}
	if x.modes.followRules(); l.sent || l.scope == x.modes.scope {
		if !l.sent {
			x.sent = time.Now()
		}
		return true
	}
	return false
}

// SendBehind implements pool.Owner.
func (s *session) SendBehind(c *sharedConn) bool {
	if !c.matches(s) || c.mode != s.modes.mode || !s.prepareFor(c) || len(c.pipe.out)+s.msg.size > maxUnsent {
		return false
	}
	c.pipe.out = append(c.pipe.out, s.client.Buffered()[:s.msg.size]...)
	if s.maySendPing() {
		c.pipe.out = append(c.pipe.out, ping[:]...)
	}
	c.charge(s.srv)
	s.lease.sent, s.sent = true, time.Now()
	if l := s.lease.pool.lender; !c.pipe.queued {
		c.pipe.queued = true
		l.unsent = append(l.unsent, c)
		l.keeper.Resume()
	}
	return true
}

// prepareFor has an execution be of the connection's statement, if it has that.
func (s *session) prepareFor(c *sharedConn) bool {
	st := s.lease.statement
	if st == nil {
		return true
	}
	on := c.statements.Find(&st.key)
	if on == nil || on.Busy || on.Cursored || s.clashes(st, on) {
		return false
	}
	if st.use(on); s.translate(st) != nil {
		st.on, on.Owner = nil, 0
		return false
	}
	return true
}

// send writes the statements that were collected in this turn of the loop.
func (l *lender) send() {
	for i, c := range l.unsent {
		l.unsent[i] = nil
		p := &c.pipe
		if p.queued = false; p.closed || p.writing || len(p.out) == 0 {
			continue
		}
		if below := collectorOf(c.conn); below != nil {
			taken, sent := below.Collect(c.conn, p.out)
			if taken {
				p.out = p.out[:0]
			}
			p.writing = !sent
			c.charge(l.srv)
			continue
		}
		n := onLoop(c.conn).WriteNow(p.out)
		p.out = p.out[:copy(p.out, p.out[n:])]
		p.writing = len(p.out) > 0
	}
	l.unsent = l.unsent[:0]
}

// sendRest writes what is left of the statements of sessions behind the holder before, of which the holder is one.
func (s *session) sendRest() error {
	p := &s.lease.shared.Value.pipe
	if !p.writing && len(p.out) == 0 {
		return nil
	}
	p.writing = true
	var err error
	if below := collectorOf(s.backend); below != nil {
		err = below.Flush()
	}
	if err == nil && len(p.out) > 0 {
		_, err = s.backend.Write(p.out)
	}
	p.out, p.writing = p.out[:0], false
	return err
}

// lead permits others to send their statements behind the current one, which was sent.
func (x *relayer) lead() {
	l := &x.lease
	if !l.reads || !l.fresh {
		return
	}
	if c := l.shared.Value; !l.sent {
		c.pipe.turn = time.Now()
	}
	if !l.waiter.Alone {
		l.pool.Lead(l.shared)
	}
}

// handOver passes the connection on to the first session behind.
func (s *session) handOver() {
	l := &s.lease
	shared, c := l.shared, l.shared.Value
	c.status, c.pipe.turn = s.modes.status, time.Now()
	next := l.pool.Next(shared, c.pipe.turn).Owner.(*session)
	s.passBuffer(&next.link)
	s.letGo()
	s.task.Give(onLoop(c.conn), next.task)
	next.own(shared)
}

// passBuffer gives another session of the loop, which has no connection yet, the read buffer of the backend's connection, with the
// bytes in it.
func (l *link) passBuffer(to *link) {
	to.shared[backendSide], to.borrowed[backendSide], to.ownRead[backendSide] = l.shared[backendSide], l.borrowed[backendSide], l.ownRead[backendSide]
	to.long[backendSide] = to.long[backendSide] || l.borrowed[backendSide]
	l.shared[backendSide], l.borrowed[backendSide], l.ownRead[backendSide] = false, false, nil
}

// quitWaiting takes a session that ends off the queue, or off the connection on which its statement is behind others.
func (s *session) quitWaiting() {
	w := &s.lease.waiter
	if w.Grant == pool.GrantBehind {
		s.lease.pool.Leave(w)
	}
	s.lease.pool.Cancel(w)
}

// awaitResponse waits for the start of the response to a statement that was sent behind others, on the connection that the session
// holds then. answered is false if there will be none: the statement has to be sent again.
func (s *session) awaitResponse() (answered bool, err error) {
	if s.lease.waiter.Grant == pool.GrantUse {
		s.lease.waiter.Conn = nil
		c := s.lease.shared.Value
		s.modes.adopt(c.mode, c.status)
		s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1)
		if answered, err = s.awaitFirstByte(); answered || err != nil {
			return answered, err
		}
		s.lease.pool.Stats.Lost.Add(1)
		s.discardShared()
	}
	s.lease.sent, s.lease.waiter.Alone = false, true
	return false, nil
}

func (s *session) awaitFirstByte() (answered bool, err error) {
	if s.sendRest() != nil {
		return false, nil
	}
	for len(s.backend.Buffered()) == 0 {
		s.awaitBytes(backendSide)
		switch err := s.backend.Fill(); {
		case err == nil:
		case !isTimeout(err):
			return false, nil
		default:
			if err := s.interruptedRelay(); err != nil {
				return false, err
			}
		}
	}
	s.received()
	return true, nil
}

// goAlone has the session use its connection alone: others send nothing behind its statements, and those that did send theirs elsewhere.
// Their responses are read and discarded.
func (s *session) goAlone() error {
	l := &s.lease
	n := l.pool.Disband(l.shared)
	if n == 0 {
		return nil
	}
	if err := s.sendRest(); err != nil {
		return s.writeFailed(err)
	}
	for range n {
		if _, err := s.skipResponse(mysqlwire.ComQuery, 1); err != nil {
			return err
		}
		if l.pinged { // as all of its class
			if _, err := s.skipResponse(mysqlwire.ComPing, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// A read is short if each of its last executions was without anything unusual, and their moving averages are within these bounds.
const (
	shortTime  = 5 * time.Millisecond
	shortBytes = 16 << 10
	shortCalls = 16
)

// shortReads are the costs of reads, by digest. Another digest may take the place of one.
type shortReads [1 << 10]readCost

const shortReadsBytes = int64(unsafe.Sizeof(shortReads{}))

type readCost struct {
	digest sqldigest.Digest
	calls  uint16        // alike and without anything unusual, until now
	took   time.Duration // a moving average, as bytes
	bytes  int
}

func (r *shortReads) of(d sqldigest.Digest) *readCost {
	return &r[(int(d[0])|int(d[1])<<8)%len(r)]
}

// has reports whether the executions of a statement were short lately.
func (r *shortReads) has(d sqldigest.Digest) bool {
	e := r.of(d)
	return e.digest == d && e.calls >= shortCalls && e.took <= shortTime && e.bytes <= shortBytes
}

// note records an execution. unusual: others could not have been sent behind it.
func (r *shortReads) note(d sqldigest.Digest, took time.Duration, bytes int, unusual bool) {
	e := r.of(d)
	if e.digest != d {
		*e = readCost{digest: d}
	}
	if unusual || took > 10*shortTime || bytes > 10*shortBytes {
		e.calls = 0
		return
	}
	if e.calls == 0 {
		e.took, e.bytes = took, bytes
	}
	e.calls += min(1, shortCalls-e.calls)
	e.took += (took - e.took) / 8
	e.bytes += (bytes - e.bytes) / 8
}

// noteRead records the current statement, a read, at its end.
func (s *session) noteRead(why keptBy) {
	l := &s.lease
	if l.pool.lender.reads == nil {
		return
	}
	unusual := why != keptNot || l.unsure || l.changed || s.resp.Errno != 0 || s.failed != nil || l.shared == nil
	var took time.Duration
	if !unusual {
		took = time.Since(l.shared.Value.pipe.turn)
	}
	l.pool.lender.reads.note(s.rec.Digest, took, int(s.rec.BytesOut), unusual)
}
