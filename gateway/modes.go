package gateway

import (
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

const modesQuery = "SELECT @@session.character_set_client, @@session.sql_mode, CAST(CONVERT(DATABASE() USING utf8mb4) AS BINARY)"

// ensureModes queries the backend for the default schema and the modes that decide how text is read, if they are
// not known: after a login, where the server's settings apply, and after a statement whose text does not
// determine the new modes, such as SET character_set_client = @saved in mysqldump's dumps. Rules and
// redaction depend on them.
func (s *session) ensureModes() error {
	if !s.modesUnknown {
		return nil
	}
	if s.readsLastStatement() {
		return nil
	}
	s.modesUnknown = false
	s.resp.Begin(s.msg.cmd, s.caps, s.msg.seq+1) // sequence number for an error
	if s.userUnknown() {
		if err := s.resolveLate(); err != nil {
			return err
		}
	}
	if err := s.internalQuery(modesQuery); err != nil {
		return s.writeFailed(err)
	}
	row, _, err := s.readInternalRow(s.fillBackend)
	switch {
	case err != nil:
		return s.internalFailed(err)
	case row == nil: // for example an account whose password has expired
		s.forgetModes()
	default:
		s.setMode(s.mode.WithCharset(sqldigest.CharsetNamed(row[0])).WithSQLMode(row[1]))
		s.reportSchema(row[2])
	}
	return nil
}

// internalFailed returns the end of a session that could not read the response to an internal query.
func (s *session) internalFailed(err error) error {
	if broken, ok := errors.AsType[*protocolError](err); ok {
		return s.backendBroken(broken.err)
	}
	return err
}

// resolveLate resolves the user of a session after its login.
func (s *session) resolveLate() error {
	tooMany, err := s.resolveUser(s.fillBackend)
	switch {
	case err != nil:
		return s.internalFailed(err)
	case tooMany != nil:
		return s.violation(s.msg.seq+1, tooMany.errno, tooMany.msg)
	}
	return nil
}

// readsLastStatement reports whether the command may read what the server keeps of the previous statement,
// which an internal query would replace.
func (s *session) readsLastStatement() bool {
	switch s.msg.cmd {
	case mysqlwire.ComQuery, mysqlwire.ComStmtPrepare:
		return s.mayReadLast(s.msg.body)
	case mysqlwire.ComStmtExecute, mysqlwire.ComStmtBulkExecute:
		st := s.statements.find(s.msg.body)
		return st != nil && st.readsLast
	}
	return false
}

// mayReadLast searches a long text outside the loop.
func (s *session) mayReadLast(text []byte) bool {
	if len(text) < blockText {
		return mayReadLast(text)
	}
	return s.longMayReadLast(text)
}

func (s *session) longMayReadLast(text []byte) (may bool) {
	s.task.Block(func() { may = mayReadLast(text) })
	return may
}

// mayReadLast searches for words anywhere in the text, because the modes for reading it are not known.
func mayReadLast(text []byte) bool {
	for i, b := range text {
		var word string
		switch b | 0x20 {
		case 'r':
			word = "ROW_COUNT"
		case 'f':
			word = "FOUND_ROWS"
		case 'w':
			word = "WARNING"
		case 'e':
			word = "ERROR"
		case 'd':
			word = "DIAGNOSTICS"
		case 'o':
			word = "OPTIMIZER_TRACE"
		case 'p':
			word = "PROFIL"
		case 's':
			word = "STATUS"
		default:
			continue
		}
		if rest := text[i:]; len(rest) >= len(word) && isAny(rest[:len(word)], word) {
			return true
		}
	}
	return false
}

// forgetModes marks the modes as unknown: the next statement has no text in logs and is refused by rules
// about its effects, and the modes are queried before the statement after it.
func (s *session) forgetModes() {
	s.setMode(s.mode.WithCharset(0) | sqldigest.UnknownSQLMode)
	s.modesUnknown = true
}

// setCharset records a change of the connection's character set. 0 means unknown: it is queried before the
// next statement.
func (s *session) setCharset(c sqldigest.Charset) {
	s.setMode(s.mode.WithCharset(c))
	s.modesUnknown = s.modesUnknown || s.mode.Unknown()
}

func (s *session) setMode(mode sqldigest.Mode) {
	if mode != s.mode {
		s.mode = mode
		s.rescope()
	}
}

// A protocolError is a protocol violation in the response to an internal query.
type protocolError struct{ err error }

func (e *protocolError) Error() string { return e.err.Error() }

// internalQuery sends an internal query to the backend between commands. The response is one row of three columns and
// fits the buffer.
func (s *session) internalQuery(sql string) error {
	q := mysqlwire.AppendQuery(mysqlwire.OpenPacket(nil), []byte(sql), s.caps)
	_, err := s.backend.Write(mysqlwire.ClosePacket(q, 0, 0))
	return err
}

// readInternalRow reads the response to internalQuery; fill reads more of it. The row is a view of the buffer, valid until the
// next read; it is nil if the server responded with something else.
func (s *session) readInternalRow(fill func() error) (row mysqlwire.TextRow, status mysqlwire.Status, err error) {
	s.internal = true
	defer func() { s.internal = false }()
	var r mysqlwire.Response
	for done := false; !done; {
		if err := fill(); err != nil {
			return nil, 0, err
		}
		r.Begin(mysqlwire.ComQuery, s.caps, 1)
		_, ev, err := r.Scan(s.backend.Buffered())
		if err != nil {
			return nil, 0, &protocolError{err}
		}
		done = ev == mysqlwire.EventDone
	}
	if r.Rows == 1 {
		if row, err = s.modesRow(s.backend.Buffered()); err != nil {
			return nil, 0, &protocolError{err}
		}
	}
	s.backend.Discard(len(s.backend.Buffered()))
	return row, r.Status, nil
}

// modesRow returns the single row in the response to modesQuery.
func (s *session) modesRow(b []byte) (row mysqlwire.TextRow, err error) {
	var h mysqlwire.ResultHeader
	p, b, err := cutPacket(b)
	if err == nil {
		err = h.Decode(p, s.caps)
	}
	skip := 3 // definitions
	if h.NoDefinitions {
		skip = 0
	}
	if !s.caps.Has(mysqlwire.CapDeprecateEOF) {
		skip++
	}
	for range skip + 1 {
		if err == nil {
			p, b, err = cutPacket(b)
		}
	}
	if err == nil {
		err = row.Decode(p, 3)
	}
	if err != nil {
		return nil, fmt.Errorf("response to the gateway's query: %w", err)
	}
	return row, nil
}

// cutPacket returns the payload of the first packet in b and the bytes after it.
func cutPacket(b []byte) (payload, rest []byte, err error) {
	if len(b) < mysqlwire.HeaderLen || len(b)-mysqlwire.HeaderLen < mysqlwire.ParseHeader(b).Len {
		return nil, nil, mysqlwire.ErrShortPacket
	}
	end := mysqlwire.HeaderLen + mysqlwire.ParseHeader(b).Len
	return b[mysqlwire.HeaderLen:end], b[end:], nil
}
