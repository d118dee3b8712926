package mysqlwire

import "encoding/binary"

// ExecuteFlags are options of an execution.
type ExecuteFlags uint8

// The flags, with their names in MySQL's sources: CURSOR_TYPE_… and PARAMETER_COUNT_….
const (
	ExecuteReadOnlyCursor ExecuteFlags = 0x01 // rows are fetched by COM_STMT_FETCH
	ExecuteParamCount     ExecuteFlags = 0x08 // the number of parameters is sent: they may include query attributes
)

// Has reports whether all flags of want are in f.
func (f ExecuteFlags) Has(want ExecuteFlags) bool { return f&want == want }

// A StmtExecute executes a prepared statement: COM_STMT_EXECUTE. StmtParams decodes its parameters, which
// depend on earlier messages about the statement.
//
// Specification: MySQL "COM_STMT_EXECUTE", MariaDB "COM_STMT_EXECUTE".
type StmtExecute struct {
	StatementID uint32 // LastPreparedID denotes the last prepared statement
	Flags       ExecuteFlags
	Iterations  uint32 // always 1
	Params      []byte // the parameters; a view of the payload
}

// Decode reads the message. It does not allocate.
func (e *StmtExecute) Decode(payload []byte) error {
	const what = "stmt execute"
	*e = StmtExecute{}
	c, err := openCommand(payload, ComStmtExecute, what)
	if err != nil {
		return err
	}
	e.StatementID = c.u32()
	e.Flags = ExecuteFlags(c.u8())
	e.Iterations = c.u32()
	e.Params = c.all()
	return c.done(what)
}

// AppendTo appends the message. It does not allocate when dst has room.
func (e StmtExecute) AppendTo(dst []byte) []byte {
	dst = append(dst, byte(ComStmtExecute))
	dst = binary.LittleEndian.AppendUint32(dst, e.StatementID)
	dst = append(dst, byte(e.Flags))
	dst = binary.LittleEndian.AppendUint32(dst, e.Iterations)
	return append(dst, e.Params...)
}
