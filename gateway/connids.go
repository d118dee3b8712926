package gateway

import (
	"encoding/binary"
	"strconv"
	"sync"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
)

// connIDs are the connection numbers in the gateway's greetings. A client is greeted before it has a
// connection at the backend, so it does not learn the backend's number. The numbers lie in a quarter of the
// range that servers reach only after a billion connections, and are positive for clients that keep them in
// 32 bits with a sign, such as MariaDB Connector/J. Clients use them for KILL, where the gateway replaces
// them.
type connIDs struct {
	mu   sync.Mutex
	last uint32
	of   map[uint32]*session
}

const firstConnID = 1 << 30

func (c *connIDs) next() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		c.last++
		id := c.last&(firstConnID-1) | firstConnID
		if _, used := c.of[id]; !used {
			return id
		}
	}
}

func (c *connIDs) add(id uint32, s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[uint32]*session)
	}
	c.of[id] = s
}

func (c *connIDs) remove(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, id)
}

// backendID returns the backend's number for the connection that was greeted with id, on the server of
// session s.
func (c *connIDs) backendID(id uint64, s *session) (uint32, bool) {
	if id < firstConnID || id >= 2*firstConnID {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.of[uint32(id)]
	if !ok || at.side.Load() != uint32(s.to.side) {
		return 0, false
	}
	return at.shown.connection.Load(), true
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

// kill serves a KILL statement: it replaces a number from the gateway's greeting by the backend's number.
func (s *session) kill() (rewritten []byte) {
	start, end, ok := killed(s.rec.Text, s.mode)
	if !ok {
		return nil
	}
	id, err := strconv.ParseUint(string(s.rec.Text[start:end]), 10, 64)
	if err != nil {
		return nil
	}
	backend, ok := s.srv.ids.backendID(id, s)
	if !ok {
		return nil
	}
	skip := len(s.msg.body) - len(s.rec.Text) // the command and its attributes
	out := append([]byte(nil), s.msg.body[:skip+start]...)
	out = strconv.AppendUint(out, uint64(backend), 10)
	return append(out, s.msg.body[skip+end:]...)
}

// exchangeAs is exchange for a command whose payload was changed.
func (s *session) exchangeAs(payload []byte) error {
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1)
	s.backend.Seq = 0
	if err := s.backend.WriteMessage(payload); err != nil {
		return s.writeFailed(err)
	}
	return s.relay()
}

// processKill serves COM_PROCESS_KILL.
func (s *session) processKill() error {
	if s.msg.whole && len(s.msg.body) == 5 {
		id := binary.LittleEndian.Uint32(s.msg.body[1:])
		if backend, ok := s.srv.ids.backendID(uint64(id), s); ok {
			return s.exchangeAs(binary.LittleEndian.AppendUint32([]byte{byte(mysqlwire.ComProcessKill)}, backend))
		}
	}
	return s.exchange()
}
