package gateway

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// connIDs are the connection ids of the clients of a gateway with a standby. A client is greeted with the backend's own id,
// so nothing is translated in statements until its session has moved to another server. Then its client knows it by an id
// of the previous server, which the gateway replaces in the lone KILL statements that drivers send to cancel. No other
// client has that id: connections with an id in the set are not used for other clients.
type connIDs struct {
	moving bool // sessions can move; otherwise the set is empty

	mu sync.Mutex
	of map[uint32]*shown
}

// shown is a session as the API and other sessions see it.
type shown struct {
	connection atomic.Uint32 // the backend's id; 0 before the login
	greeted    atomic.Uint32 // the id in the client's greeting: connection, unless the session has moved
	side       atomic.Uint32 // of the session's server
	user       atomic.Pointer[string]
	shares     atomic.Bool // connections, with other sessions
}

// greet records the id in the client's greeting.
func (s *shown) greet(id uint32) { s.greeted.Store(id) }

// connect records the session's connection to a side. The side is first: moved returns no id of the side before.
func (s *shown) connect(id uint32, to switchover.Side) {
	s.side.Store(uint32(to))
	s.connection.Store(id)
}

// logIn records the session's user.
func (s *shown) logIn(user string) { s.user.Store(&user) }

// take adds an id of a session, and reports whether no other one has it.
func (c *connIDs) take(id uint32, s *shown) bool {
	if !c.moving {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.of[id]; other != nil && other != s {
		return false
	}
	if c.of == nil {
		c.of = make(map[uint32]*shown)
	}
	c.of[id] = s
	return true
}

// attempts returns how many connections a login may open until it has one whose id no other session has. A server counts its
// ids up, so each id in the set is met once.
func (c *connIDs) attempts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 8 + len(c.of)
}

// remove removes the ids of a session: the one in its client's greeting, and id.
func (c *connIDs) remove(id uint32, s *shown) {
	c.drop(s.greeted.Load(), s)
	c.drop(id, s)
}

// drop removes an id of a session.
func (c *connIDs) drop(id uint32, s *shown) {
	if !c.moving {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[id] == s {
		delete(c.of, id)
	}
}

// moved returns the current id of the session whose client was greeted with id on another server, if the session is on
// a side's server now.
func (c *connIDs) moved(id uint64, on switchover.Side) (now uint32, ok bool) {
	if !c.moving || id > math.MaxUint32 {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.of[uint32(id)]
	if at == nil || at.greeted.Load() != uint32(id) || at.side.Load() != uint32(on) {
		return 0, false
	}
	now = at.connection.Load()
	return now, now != 0 && now != uint32(id)
}

// killed returns the position of the number in a KILL statement, the only number in sql.
func killed(sql []byte, m sqldigest.Mode) (start, end int, ok bool) {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	t := l.NextSignificant()
	if !isAny(sql[t.Start:t.End], "KILL") {
		return 0, 0, false
	}
	for {
		t = l.NextSignificant()
		word := sql[t.Start:t.End]
		switch {
		case isAny(word, "HARD", "SOFT", "CONNECTION", "QUERY", "ID"):
		case len(word) > 0 && word[0] >= '0' && word[0] <= '9':
			after := l.NextSignificant()
			if after.Kind == sqldigest.KindOperator && after.End-after.Start == 1 && sql[after.Start] == ';' {
				after = l.NextSignificant()
			}
			return t.Start, t.End, after.Kind == sqldigest.KindEOF
		default:
			return 0, 0, false
		}
	}
}

// killTarget returns the id to kill for an id in a KILL: another one for a session that has moved. An id that is also one of
// a connection at the server that is not the gateway's is ambiguous, and refused.
func (x *executor) killTarget(id uint64) (now uint32, moved bool, refusal *clientError, err error) {
	if now, moved = x.srv.ids.moved(id, x.to.side); !moved {
		return 0, false, nil, nil
	}
	x.resp.Begin(x.msg.cmd, x.caps, x.msg.seq+1) // sequence number for an error
	if err := x.internalQuery("SELECT COUNT(*), '', '' FROM information_schema.PROCESSLIST WHERE ID = " + strconv.FormatUint(id, 10)); err != nil {
		return 0, false, nil, x.writeFailed(err)
	}
	row, _, err := x.readInternalRow(x.fillBackend)
	if err != nil {
		err = x.internalFailed(err)
	} else if row != nil && string(row[0]) != "0" {
		refusal = &clientError{errno: mysqlwire.ErrnoUnknown, msg: fmt.Sprintf(
			"Tare does not know which connection to kill: %d is one of this server, and was the id of a session that was switched to it, which has the id %d now", id, now)}
	}
	return now, true, refusal, err
}

// sharing returns the session that shares connections and whose client was greeted with id, or nil.
func (s *Server) sharing(id uint64) *session {
	if s.opts.Pool == nil || id > math.MaxUint32 {
		return nil
	}
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for ses := range s.registry.sessions {
		if ses.shown.greeted.Load() == uint32(id) && ses.served.Load() != nil && ses.shown.shares.Load() {
			return ses
		}
	}
	return nil
}

// killShared serves a KILL of a session that shares connections, by the id of its client's greeting. done: it was one. A statement is
// killed on the connection that the session has at that time, and the connection is closed afterwards: a KILL QUERY cannot reach
// another session.
func (x *executor) killShared(id uint64, statement bool) (done bool, err error) {
	if x.srv.opts.Pool == nil {
		return false, nil
	}
	var victim *session
	x.task.Block(func() { victim = x.srv.sharing(id) })
	if victim == nil {
		return false, nil
	}
	if user := victim.shown.user.Load(); user == nil || *user != x.modes.user {
		e := &clientError{errno: errnoNotOwner, msg: fmt.Sprintf("You are not owner of thread %d", id)}
		x.fail(e)
		return true, x.sendError(x.msg.seq+1, e, true)
	}
	if !statement {
		victim.interrupt(causeKilled)
		return true, x.sendOK()
	}
	if id == uint64(x.connID) {
		return true, x.sendOK() // it executes this KILL
	}
	var hold *killHold
	var at uint32
	x.task.Block(func() {
		x.srv.inspectSome(func(ses *session) bool { return ses == victim }, func(ses *session, w netloop.Suspension) {
			if ses.pausing.Load() {
				ses.interrupt(causeQueryKilled)
			}
			if at = ses.backendID(); at != 0 && ses.inCommand() && !ses.turnstile.isHeld() {
				hold = ses.turnstile.holdNext()
			}
		})
	})
	if hold == nil {
		return true, x.sendOK() // it executes nothing
	}
	defer close(hold.done)
	return true, x.exchangeAs(strconv.AppendUint(append([]byte{byte(mysqlwire.ComQuery)}, x.noAttributes("KILL QUERY ")...), uint64(at), 10))
}

const errnoNotOwner = mysqlwire.Errno(1095)

// noAttributes returns the start of a COM_QUERY's text, after its query attributes, of which there are none.
func (x *executor) noAttributes(text string) []byte {
	return mysqlwire.AppendQuery(nil, []byte(text), x.caps)[1:]
}

// sendOK responds to a command that the server does not receive.
func (x *relayer) sendOK() error {
	ok := mysqlwire.OK{Status: x.modes.status &^ mysqlwire.StatusSessionChanged}
	x.errBuf = ok.AppendTo(mysqlwire.OpenPacket(x.errBuf[:0]), x.caps)
	if _, err := x.client.Write(mysqlwire.ClosePacket(x.errBuf, 0, x.msg.seq+1)); err != nil {
		return fmt.Errorf("%w: write a response: %w", errClientDisconnected, err)
	}
	return nil
}

// backendID returns the server's id of the session's connection; 0: it has none.
func (x *relayer) backendID() uint32 {
	switch {
	case !x.pooled:
		return x.connID
	case x.lease.shared == nil:
		return 0
	}
	return x.lease.shared.Value.id
}

// killPrepared serves an execution of a prepared KILL, of a session that shares connections.
func (x *executor) killPrepared(st *preparedStatement) error {
	var number []byte
	if start, end, ok := killed(st.sql, st.mode); ok {
		number = st.sql[start:end]
	} else if len(x.rec.Binds) == 1 {
		number, _ = x.rec.Binds[0].AppendText(nil)
	}
	if id, err := strconv.ParseUint(string(number), 10, 64); err == nil {
		if done, err := x.killShared(id, contains(st.sql, "QUERY")); done || err != nil {
			return err
		}
	}
	return x.exchange()
}

// kill serves a KILL statement.
func (x *executor) kill() error {
	if st := x.lease.statement; st != nil {
		return x.killPrepared(st)
	}
	start, end, ok := killed(x.rec.Text, x.modes.mode)
	if !ok {
		return x.exchange()
	}
	id, err := strconv.ParseUint(string(x.rec.Text[start:end]), 10, 64)
	if err != nil {
		return x.exchange()
	}
	if done, err := x.killShared(id, contains(x.rec.Text, "QUERY")); done || err != nil {
		return err
	}
	now, moved, refusal, err := x.killTarget(id)
	switch {
	case err != nil:
		return err
	case refusal != nil:
		x.fail(refusal)
		return x.sendError(x.msg.seq+1, refusal, true)
	case !moved:
		return x.exchange()
	}
	skip := len(x.msg.body) - len(x.rec.Text) // the command and its attributes
	out := append([]byte(nil), x.msg.body[:skip+start]...)
	out = strconv.AppendUint(out, uint64(now), 10)
	return x.exchangeAs(append(out, x.msg.body[skip+end:]...))
}

// processKill serves COM_PROCESS_KILL.
func (x *executor) processKill() error {
	if !x.msg.whole || len(x.msg.body) != 5 {
		return x.exchange()
	}
	id := uint64(binary.LittleEndian.Uint32(x.msg.body[1:]))
	if done, err := x.killShared(id, false); done || err != nil {
		return err
	}
	now, moved, refusal, err := x.killTarget(id)
	switch {
	case err != nil:
		return err
	case refusal != nil:
		x.consume()
		return x.sendError(x.msg.seq+1, refusal, true)
	case !moved:
		return x.exchange()
	}
	return x.exchangeAs(binary.LittleEndian.AppendUint32([]byte{byte(mysqlwire.ComProcessKill)}, now))
}
