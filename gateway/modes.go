package gateway

import (
	"errors"
	"fmt"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
)

const modesQuery = "SELECT @@session.character_set_client, @@session.sql_mode, DATABASE()"

// makeSure asks the backend for the modes that decide how text is read, and for the default
// schema, when a statement may have changed them to what its text does not tell, as SET
// character_set_client = @saved does in the dumps of mysqldump. It does so only where rules depend on the answer: otherwise a
// statement that is misread is counted under another digest, or has no text when its mode is unknown.
func (s *session) makeSure() error {
	if !s.unsure || !s.srv.opts.Planner.HasRules() && !s.mode.Unknown() {
		return nil
	}
	s.unsure = false
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1) // what an error would answer
	if err := s.ask3(modesQuery); err != nil {
		return s.writeFailed(err)
	}
	row, _, err := s.answer3(s.fillBackend)
	var broken *brokenAnswerError
	switch {
	case errors.As(err, &broken):
		return s.backendBroken(broken.err)
	case err != nil:
		return err
	case row != nil: // a server that does not know the question has answered it all the same
		s.setMode(s.mode.WithCharset(sqldigest.CharsetNamed(row[0])).WithSQLMode(row[1]))
		s.setSchema(row[2])
	}
	return nil
}

// A brokenAnswerError is an answer to the gateway's own question that keeps no protocol.
type brokenAnswerError struct{ err error }

func (e *brokenAnswerError) Error() string { return e.err.Error() }

// ask3 asks the backend a question of the gateway's own, between commands, whose answer is one
// row of three columns and fits the buffer.
func (s *session) ask3(sql string) error {
	q := mysqlwire.AppendQuery(mysqlwire.OpenPacket(nil), []byte(sql), s.caps)
	_, err := s.backend.Write(mysqlwire.ClosePacket(q, 0, 0))
	return err
}

// answer3 is the answer to ask3; fill reads more of it. The row is a view of the buffer, valid
// until the next read; it is nil when the server answered otherwise.
func (s *session) answer3(fill func() error) (row mysqlwire.TextRow, status mysqlwire.Status, err error) {
	var r mysqlwire.Response
	for done := false; !done; {
		if err := fill(); err != nil {
			return nil, 0, err
		}
		r.Begin(mysqlwire.ComQuery, s.caps, 1)
		_, ev, err := r.Scan(s.backend.Buffered())
		if err != nil {
			return nil, 0, &brokenAnswerError{err}
		}
		done = ev == mysqlwire.EventDone
	}
	if r.Rows == 1 {
		if row, err = s.modesRow(s.backend.Buffered()); err != nil {
			return nil, 0, &brokenAnswerError{err}
		}
	}
	s.backend.Discard(len(s.backend.Buffered()))
	return row, r.Status, nil
}

// modesRow finds the one row in the response to modesQuery.
func (s *session) modesRow(b []byte) (row mysqlwire.TextRow, err error) {
	skip := 4 // the column count and three definitions
	if !s.caps.Has(mysqlwire.CapDeprecateEOF) {
		skip++
	}
	for range skip {
		if len(b) < mysqlwire.HeaderLen {
			return nil, fmt.Errorf("answer to the gateway's own question: %w", mysqlwire.ErrShortPacket)
		}
		b = b[min(len(b), mysqlwire.HeaderLen+mysqlwire.ParseHeader(b).Len):]
	}
	if len(b) < mysqlwire.HeaderLen {
		return nil, fmt.Errorf("answer to the gateway's own question: %w", mysqlwire.ErrShortPacket)
	}
	end := min(len(b), mysqlwire.HeaderLen+mysqlwire.ParseHeader(b).Len)
	if err := row.Decode(b[mysqlwire.HeaderLen:end], 3); err != nil {
		return nil, fmt.Errorf("answer to the gateway's own question: %w", err)
	}
	return row, nil
}
