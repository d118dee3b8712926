package mysqlwire

import "encoding/binary"

// An AttributeIter iterates over connection attributes: pairs of length-encoded strings, such as _client_name
// and program_name, by which a client describes itself.
//
//	for it := mysqlwire.Attributes(raw); it.Next(); {
//		use(it.Name(), it.Value())
//	}
//
// Specification: MySQL "Protocol::HandshakeResponse41" (client_connect_attrs).
type AttributeIter struct {
	c           cursor
	name, value []byte
}

// Attributes iterates over raw, the Attrs of a HandshakeResponse or ChangeUser.
// It does not allocate.
func Attributes(raw []byte) AttributeIter { return AttributeIter{c: cursor{rest: raw}} }

// Next advances to the next attribute and reports whether there is one.
func (it *AttributeIter) Next() bool {
	if !it.c.more() {
		return false
	}
	it.name = it.c.lenencBytes()
	it.value = it.c.lenencBytes()
	return !it.c.short
}

// Name returns the attribute's name, a view of the payload.
func (it *AttributeIter) Name() []byte { return it.name }

// Value returns the attribute's value, a view of the payload.
func (it *AttributeIter) Value() []byte { return it.value }

// Err returns ErrShortPacket, wrapped, if Next stopped before the end.
func (it *AttributeIter) Err() error { return it.c.done("connection attributes") }

// Decode reads the message. It does not allocate.
func (r *RegisterReplica) Decode(payload []byte) error {
	const what = "register replica"
	*r = RegisterReplica{}
	c, err := openCommand(payload, ComRegisterReplica, what)
	if err != nil {
		return err
	}
	r.ServerID = c.u32()
	for _, s := range []*[]byte{&r.Host, &r.User, &r.Password} {
		*s = c.bytes(int(c.u8()))
	}
	r.Port = c.u16()
	c.bytes(8) // a rank and the source's id, both unused
	return c.done(what)
}

// Decode reads the message. It does not allocate.
func (b *BinlogDump) Decode(payload []byte) error {
	*b = BinlogDump{}
	c, err := openCommand(payload, ComBinlogDump, "binlog dump")
	if err != nil {
		return err
	}
	b.Offset, b.Flags, b.ServerID = c.u32(), c.u16(), c.u32()
	b.File = c.all()
	return c.done("binlog dump")
}

// Decode reads the message. It does not allocate.
func (b *BinlogDumpGTID) Decode(payload []byte) error {
	*b = BinlogDumpGTID{}
	c, err := openCommand(payload, ComBinlogDumpGTID, "binlog dump gtid")
	if err != nil {
		return err
	}
	b.Flags, b.ServerID = c.u16(), c.u32()
	b.File = c.bytes(int(c.u32()))
	b.Offset = c.u64()
	b.Set = c.bytes(int(c.u32()))
	return c.done("binlog dump gtid")
}

// Attributes iterates over the connection attributes.
func (u *ChangeUser) Attributes() AttributeIter { return Attributes(u.Attrs) }

// A FieldList requests the definitions of a table's columns: COM_FIELD_LIST. Command-line
// clients still send it to complete names.
//
// Specification: MySQL "COM_FIELD_LIST".
type FieldList struct {
	Table    []byte // views of the payload
	Wildcard []byte // a LIKE pattern; empty: all
}

// Decode reads the message. It does not allocate.
func (f *FieldList) Decode(payload []byte) error {
	const what = "field list"
	*f = FieldList{}
	c, err := openCommand(payload, ComFieldList, what)
	if err != nil {
		return err
	}
	f.Table = c.nul()
	f.Wildcard = c.all()
	return c.done(what)
}

// AppendTo appends the message. It does not allocate when dst has room.
func (f FieldList) AppendTo(dst []byte) []byte {
	return append(appendNul(append(dst, byte(ComFieldList)), f.Table), f.Wildcard...)
}

// Attributes iterates over the connection attributes.
func (h *HandshakeResponse) Attributes() AttributeIter { return Attributes(h.Attrs) }

// An InitDB changes the connection's current schema: COM_INIT_DB.
//
// Specification: MySQL "COM_INIT_DB", MariaDB "COM_INIT_DB".
type InitDB struct {
	Schema []byte // a view of the payload
}

// Decode reads the message. It does not allocate.
func (i *InitDB) Decode(payload []byte) error {
	*i = InitDB{}
	c, err := openCommand(payload, ComInitDB, "init db")
	if err != nil {
		return err
	}
	i.Schema = c.all()
	return nil
}

// AppendTo appends the message. It does not allocate when dst has room.
func (i InitDB) AppendTo(dst []byte) []byte {
	return append(append(dst, byte(ComInitDB)), i.Schema...)
}

// A ProcessKill ends another connection: COM_PROCESS_KILL. Servers have replaced it by the
// statement KILL but still serve it.
//
// Specification: MySQL "COM_PROCESS_KILL", MariaDB "COM_PROCESS_KILL".
type ProcessKill struct {
	ConnectionID uint32
}

// Decode reads the message. It does not allocate.
func (k *ProcessKill) Decode(payload []byte) (err error) {
	k.ConnectionID, err = decodeID(payload, ComProcessKill, "process kill")
	return err
}

// AppendTo appends the message. It does not allocate when dst has room.
func (k ProcessKill) AppendTo(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, byte(ComProcessKill)), k.ConnectionID)
}

// BulkFlags describe the contents of a StmtBulkExecute.
type BulkFlags uint16

// The flags, with their names in MariaDB's sources: STMT_BULK_FLAG_….
const (
	BulkUnitResults BulkFlags = 64  // the client requests a result for each row of parameters
	BulkTypes       BulkFlags = 128 // types precede the values
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

// A StmtClose frees a prepared statement: COM_STMT_CLOSE. The server sends no response.
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

// A StmtFetch requests rows of a statement that was executed with a cursor:
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

// Decode reads the message. It does not allocate.
func (p *StmtPrepare) Decode(payload []byte) error {
	*p = StmtPrepare{}
	c, err := openCommand(payload, ComStmtPrepare, "stmt prepare")
	if err != nil {
		return err
	}
	p.SQL = c.all()
	return nil
}
