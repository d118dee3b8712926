package mysqlwire

import "encoding/binary"

// A StmtClose frees a prepared statement: COM_STMT_CLOSE. The server does not answer.
//
// Specification: MySQL "COM_STMT_CLOSE", MariaDB "COM_STMT_CLOSE".
type StmtClose struct {
	StatementID uint32
}

// Decode reads the message. It does not allocate.
func (s *StmtClose) Decode(payload []byte) (err error) {
	s.StatementID, err = decodeID(payload, ComStmtClose, "stmt close")
	return err
}

// AppendTo appends the message. It does not allocate when dst has room.
func (s StmtClose) AppendTo(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, byte(ComStmtClose)), s.StatementID)
}

// A StmtReset forgets a prepared statement's long data and closes its cursor:
// COM_STMT_RESET.
//
// Specification: MySQL "COM_STMT_RESET", MariaDB "COM_STMT_RESET".
type StmtReset struct {
	StatementID uint32
}

// Decode reads the message. It does not allocate.
func (s *StmtReset) Decode(payload []byte) (err error) {
	s.StatementID, err = decodeID(payload, ComStmtReset, "stmt reset")
	return err
}

// AppendTo appends the message. It does not allocate when dst has room.
func (s StmtReset) AppendTo(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, byte(ComStmtReset)), s.StatementID)
}

// decodeID reads a command whose only field is a number of 4 bytes.
func decodeID(payload []byte, command Command, what string) (uint32, error) {
	c, err := openCommand(payload, command, what)
	if err != nil {
		return 0, err
	}
	id := c.u32()
	return id, c.done(what)
}
