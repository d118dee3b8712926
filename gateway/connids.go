package gateway

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync"

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
	of map[uint32]*session
}

// take adds an id of s, and reports whether no other session has it.
func (c *connIDs) take(id uint32, s *session) bool {
	if !c.moving {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.of[id]; other != nil && other != s {
		return false
	}
	if c.of == nil {
		c.of = make(map[uint32]*session)
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

// remove removes the ids of s.
func (c *connIDs) remove(s *session) {
	c.drop(s.shown.greeted.Load(), s)
	c.drop(s.connID, s)
}

// drop removes an id of s.
func (c *connIDs) drop(id uint32, s *session) {
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
// the server of s now.
func (c *connIDs) moved(id uint64, s *session) (now uint32, ok bool) {
	if !c.moving || id > math.MaxUint32 {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.of[uint32(id)]
	if at == nil || at.shown.greeted.Load() != uint32(id) || at.side.Load() != uint32(s.to.side) {
		return 0, false
	}
	now = at.shown.connection.Load()
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
func (s *session) killTarget(id uint64) (now uint32, moved bool, refusal *clientError, err error) {
	if now, moved = s.srv.ids.moved(id, s); !moved {
		return 0, false, nil, nil
	}
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1) // sequence number for an error
	if err := s.internalQuery("SELECT COUNT(*), '', '' FROM information_schema.PROCESSLIST WHERE ID = " + strconv.FormatUint(id, 10)); err != nil {
		return 0, false, nil, s.writeFailed(err)
	}
	row, _, err := s.readInternalRow(s.fillBackend)
	if err != nil {
		err = s.internalFailed(err)
	} else if row != nil && string(row[0]) != "0" {
		refusal = &clientError{errno: mysqlwire.ErrnoUnknown, msg: fmt.Sprintf(
			"Tare does not know which connection to kill: %d is one of this server, and was the id of a session that was switched to it, which has the id %d now", id, now)}
	}
	return now, true, refusal, err
}

// kill serves a KILL statement.
func (s *session) kill() error {
	start, end, ok := killed(s.rec.Text, s.modes.mode)
	if !ok {
		return s.exchange()
	}
	id, err := strconv.ParseUint(string(s.rec.Text[start:end]), 10, 64)
	if err != nil {
		return s.exchange()
	}
	now, moved, refusal, err := s.killTarget(id)
	switch {
	case err != nil:
		return err
	case refusal != nil:
		s.failed = refusal
		return s.sendError(s.msg.seq+1, refusal, true)
	case !moved:
		return s.exchange()
	}
	skip := len(s.msg.body) - len(s.rec.Text) // the command and its attributes
	out := append([]byte(nil), s.msg.body[:skip+start]...)
	out = strconv.AppendUint(out, uint64(now), 10)
	return s.exchangeAs(append(out, s.msg.body[skip+end:]...))
}

// processKill serves COM_PROCESS_KILL.
func (s *session) processKill() error {
	if !s.msg.whole || len(s.msg.body) != 5 {
		return s.exchange()
	}
	now, moved, refusal, err := s.killTarget(uint64(binary.LittleEndian.Uint32(s.msg.body[1:])))
	switch {
	case err != nil:
		return err
	case refusal != nil:
		s.consume()
		return s.sendError(s.msg.seq+1, refusal, true)
	case !moved:
		return s.exchange()
	}
	return s.exchangeAs(binary.LittleEndian.AppendUint32([]byte{byte(mysqlwire.ComProcessKill)}, now))
}
