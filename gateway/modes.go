package gateway

import (
	"bytes"
	"fmt"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
)

const modesQuery = "SELECT @@session.character_set_client, @@session.sql_mode, DATABASE()"

// makeSure asks the backend for the modes that decide how text is read, and for the default
// schema, when a statement may have changed them to what its text does not tell, as SET
// character_set_client = @saved does in the dumps of mysqldump. It does so only where rules depend on the answer: otherwise a
// statement that is misread is counted under another digest and nothing worse.
func (s *session) makeSure() error {
	if !s.unsure || !s.srv.opts.Planner.HasRules() {
		return nil
	}
	s.unsure = false
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1) // what an error would answer
	q := mysqlwire.AppendQuery(mysqlwire.OpenPacket(nil), []byte(modesQuery), s.caps)
	if _, err := s.backend.Write(mysqlwire.ClosePacket(q, 0, 0)); err != nil {
		return s.writeFailed(err)
	}
	var r mysqlwire.Response
	for done := false; !done; {
		if err := s.fillBackend(); err != nil {
			return err
		}
		r.Begin(mysqlwire.ComQuery, s.caps, 1)
		_, ev, err := r.Scan(s.backend.Buffered())
		if err != nil {
			return s.backendBroken(err)
		}
		done = ev == mysqlwire.EventDone
	}
	if r.Rows == 1 { // a server that does not know the question has answered it all the same
		row, err := s.modesRow(s.backend.Buffered())
		if err != nil {
			return s.backendBroken(err)
		}
		s.setMode(modesOf(row[0], row[1]))
		s.setSchema(row[2])
	}
	s.backend.Discard(len(s.backend.Buffered()))
	return nil
}

// modesRow finds the one row in the response to modesQuery.
func (s *session) modesRow(b []byte) (row mysqlwire.TextRow, err error) {
	skip := 4 // the column count and three definitions
	if !s.caps.Has(mysqlwire.CapDeprecateEOF) {
		skip++
	}
	for range skip {
		if len(b) < mysqlwire.HeaderLen {
			return nil, fmt.Errorf("answer to %s: %w", modesQuery, mysqlwire.ErrShortPacket)
		}
		b = b[min(len(b), mysqlwire.HeaderLen+mysqlwire.ParseHeader(b).Len):]
	}
	if len(b) < mysqlwire.HeaderLen {
		return nil, fmt.Errorf("answer to %s: %w", modesQuery, mysqlwire.ErrShortPacket)
	}
	end := min(len(b), mysqlwire.HeaderLen+mysqlwire.ParseHeader(b).Len)
	if err := row.Decode(b[mysqlwire.HeaderLen:end], 3); err != nil {
		return nil, fmt.Errorf("answer to %s: %w", modesQuery, err)
	}
	return row, nil
}

// modesOf is the mode by the server's names.
func modesOf(charset, sqlMode []byte) (mode sqldigest.Mode) {
	for _, c := range charsetModes {
		if string(charset) == c.name {
			mode = c.mode
		}
	}
	if bytes.Contains(sqlMode, []byte("ANSI_QUOTES")) {
		mode |= sqldigest.ANSIQuotes
	}
	if bytes.Contains(sqlMode, []byte("NO_BACKSLASH_ESCAPES")) {
		mode |= sqldigest.NoBackslashEscapes
	}
	return mode
}
