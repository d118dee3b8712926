package mysqlwire

import "encoding/binary"

// A StmtLongData sends a piece of a parameter's value before the execution: COM_STMT_SEND_LONG_DATA. Pieces
// are concatenated. The server does not respond.
//
// Specification: MySQL "COM_STMT_SEND_LONG_DATA", MariaDB "COM_STMT_SEND_LONG_DATA".
type StmtLongData struct {
	StatementID uint32
	Param       uint16 // from 0
	Data        []byte // a view of the payload
}

// Decode reads the message. It does not allocate.
func (l *StmtLongData) Decode(payload []byte) error {
	const what = "stmt send long data"
	*l = StmtLongData{}
	c, err := openCommand(payload, ComStmtSendLongData, what)
	if err != nil {
		return err
	}
	l.StatementID = c.u32()
	l.Param = c.u16()
	l.Data = c.all()
	return c.done(what)
}

// AppendTo appends the message. It does not allocate when dst has room.
func (l StmtLongData) AppendTo(dst []byte) []byte {
	dst = append(dst, byte(ComStmtSendLongData))
	dst = binary.LittleEndian.AppendUint32(dst, l.StatementID)
	dst = binary.LittleEndian.AppendUint16(dst, l.Param)
	return append(dst, l.Data...)
}
