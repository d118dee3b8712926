package gateway

import (
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
)

// unsolicited relays what the server sends in response to a command that has no response by the
// protocol. TiDB does so to COM_STMT_SEND_LONG_DATA and COM_STMT_CLOSE of a statement that it
// does not know: an error, which would otherwise pass for the response to the next command. When
// all of it has come is known by a COM_PING behind the command. Of consecutive commands without
// a response, the last one is followed by a COM_PING.
func (s *session) unsolicited() error {
	if s.mode.Server().Kind != sqldigest.ServerTiDB || s.nextHasNoResponse() {
		return nil
	}
	ping := [...]byte{1, 0, 0, 0, byte(mysqlwire.ComPing)}
	s.resp.Begin(mysqlwire.ComPing, s.caps, 1)
	if _, err := s.backend.Write(ping[:]); err != nil {
		return s.writeFailed(err)
	}
	for {
		b := s.backend.Buffered()
		n, ev, err := s.resp.Scan(b)
		if n > 0 {
			if s.resp.Errno != 0 {
				if _, err := s.client.Write(b[:n]); err != nil {
					return s.clientGone(err)
				}
			}
			s.backend.Discard(n)
		}
		switch {
		case err != nil:
			return s.backendBroken(err)
		case ev != mysqlwire.EventDone:
			if err := s.fillBackend(); err != nil {
				return err
			}
		case s.resp.Errno == 0:
			return nil
		default:
			s.resp.Begin(mysqlwire.ComPing, s.caps, 1)
		}
	}
}

// nextHasNoResponse reports whether the client has sent another command without a response.
func (s *session) nextHasNoResponse() bool {
	b := s.client.Buffered()[s.msg.size:]
	if len(b) <= mysqlwire.HeaderLen {
		return false
	}
	cmd := mysqlwire.Command(b[mysqlwire.HeaderLen])
	return cmd == mysqlwire.ComStmtSendLongData || cmd == mysqlwire.ComStmtClose
}
