package mysqlwire

import "encoding/binary"

// A StmtPrepare prepares a statement: COM_STMT_PREPARE.
//
// Specification: MySQL "COM_STMT_PREPARE", MariaDB "COM_STMT_PREPARE".
type StmtPrepare struct {
	SQL []byte // a view of the payload
}

// AppendTo appends the message. It does not allocate when dst has room.
func (p StmtPrepare) AppendTo(dst []byte) []byte {
	return append(append(dst, byte(ComStmtPrepare)), p.SQL...)
}

// A PrepareOK begins the response to COM_STMT_PREPARE. Params definitions follow it, then Columns
// definitions, each list with an EOF after it unless CapDeprecateEOF is negotiated or the list is empty.
//
// Specification: MySQL "COM_STMT_PREPARE_OK", MariaDB "COM_STMT_PREPARE#Response".
type PrepareOK struct {
	StatementID   uint32
	Columns       uint16
	Params        uint16
	Warnings      uint16
	NoDefinitions bool // with CapOptionalMetadata: no definitions follow
}

// Decode reads the response by the connection's capabilities. It does not allocate.
func (p *PrepareOK) Decode(payload []byte, caps Capability) error {
	const what = "prepare ok"
	*p = PrepareOK{}
	c, err := open(payload, MarkOK, what)
	if err != nil {
		return err
	}
	p.StatementID = c.u32()
	p.Columns = c.u16()
	p.Params = c.u16()
	if c.more() { // the first servers with prepared statements end here
		c.u8() // filler
		p.Warnings = c.u16()
	}
	if caps.Has(CapOptionalMetadata) && c.more() {
		p.NoDefinitions = c.u8() == 0
	}
	return c.done(what)
}

// AppendTo appends the payload of p. It does not allocate when dst has room.
func (p PrepareOK) AppendTo(dst []byte, caps Capability) []byte {
	dst = append(dst, MarkOK)
	dst = binary.LittleEndian.AppendUint32(dst, p.StatementID)
	dst = binary.LittleEndian.AppendUint16(dst, p.Columns)
	dst = binary.LittleEndian.AppendUint16(dst, p.Params)
	dst = append(dst, 0)
	dst = binary.LittleEndian.AppendUint16(dst, p.Warnings)
	switch {
	case !caps.Has(CapOptionalMetadata):
		return dst
	case p.NoDefinitions:
		return append(dst, 0)
	}
	return append(dst, 1)
}
