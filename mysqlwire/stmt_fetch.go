package mysqlwire

import "encoding/binary"

// A StmtFetch asks for rows of a statement that was executed with a cursor:
// COM_STMT_FETCH.
//
// Specification: MySQL "COM_STMT_FETCH", MariaDB "COM_STMT_FETCH".
type StmtFetch struct {
	StatementID uint32
	Rows        uint32
}

// Decode reads the message. It does not allocate.
func (f *StmtFetch) Decode(payload []byte) error {
	const what = "stmt fetch"
	*f = StmtFetch{}
	c, err := openCommand(payload, ComStmtFetch, what)
	if err != nil {
		return err
	}
	f.StatementID = c.u32()
	f.Rows = c.u32()
	return c.done(what)
}

// AppendTo appends the message. It does not allocate when dst has room.
func (f StmtFetch) AppendTo(dst []byte) []byte {
	dst = append(dst, byte(ComStmtFetch))
	dst = binary.LittleEndian.AppendUint32(dst, f.StatementID)
	return binary.LittleEndian.AppendUint32(dst, f.Rows)
}
