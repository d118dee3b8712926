package mysqlwire

import "encoding/binary"

// BulkFlags say what a StmtBulkExecute holds.
type BulkFlags uint16

// The flags, with their names in MariaDB's sources: STMT_BULK_FLAG_….
const (
	BulkUnitResults BulkFlags = 64  // the client wants a result for each row of parameters
	BulkTypes       BulkFlags = 128 // types stand before the values
)

// Has reports whether all flags of want are in f.
func (f BulkFlags) Has(want BulkFlags) bool { return f&want == want }

// A StmtBulkExecute executes a prepared statement once for each of many rows of
// parameters: MariaDB's COM_STMT_BULK_EXECUTE. Params holds the types, if any, and the
// rows; it is a view of the payload.
//
// Specification: MariaDB "COM_STMT_BULK_EXECUTE".
type StmtBulkExecute struct {
	StatementID uint32
	Flags       BulkFlags
	Params      []byte
}

// Decode reads the message. It does not allocate.
func (e *StmtBulkExecute) Decode(payload []byte) error {
	const what = "stmt bulk execute"
	*e = StmtBulkExecute{}
	c, err := openCommand(payload, ComStmtBulkExecute, what)
	if err != nil {
		return err
	}
	e.StatementID = c.u32()
	e.Flags = BulkFlags(c.u16())
	e.Params = c.all()
	return c.done(what)
}

// AppendTo appends the message. It does not allocate when dst has room.
func (e StmtBulkExecute) AppendTo(dst []byte) []byte {
	dst = append(dst, byte(ComStmtBulkExecute))
	dst = binary.LittleEndian.AppendUint32(dst, e.StatementID)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(e.Flags))
	return append(dst, e.Params...)
}
