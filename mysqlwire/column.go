package mysqlwire

import "encoding/binary"

const (
	// columnFixed is the length in bytes of a definition's numbers, which stands before them.
	columnFixed = 0x0C

	extTypeName = 0 // the kinds of MariaDB's extended metadata
	extFormat   = 1
)

// A ColumnDefinition describes one column of a result or one parameter of a prepared
// statement. Slices are views of the payload.
//
// Specification: MySQL "Protocol::ColumnDefinition41", MariaDB "Result Set
// Packets#Column Definition Packet".
type ColumnDefinition struct {
	Catalog  []byte // always "def"
	Schema   []byte
	Table    []byte // alias
	OrgTable []byte
	Name     []byte // alias
	OrgName  []byte

	// Extended is MariaDB's extended metadata under CapMariaExtendedTypeInfo; see TypeName
	// and Format.
	Extended []byte

	Charset  uint16 // collation id; 63 is binary
	Length   uint32 // bytes that the longest value takes
	Type     ColumnType
	Flags    ColumnFlags
	Decimals uint8 // 31 when a float or double has none declared

	// HasDefault says that a default value follows, as COM_FIELD_LIST sends; DefaultValue
	// is nil when it is NULL.
	HasDefault   bool
	DefaultValue []byte
}

// Decode reads a column definition by the connection's capabilities. It does not allocate.
func (d *ColumnDefinition) Decode(payload []byte, caps Capability) error {
	const what = "column definition"
	c := cursor{rest: payload}
	*d = ColumnDefinition{}
	d.Catalog = c.lenencBytes()
	d.Schema = c.lenencBytes()
	d.Table = c.lenencBytes()
	d.OrgTable = c.lenencBytes()
	d.Name = c.lenencBytes()
	d.OrgName = c.lenencBytes()
	if caps.Has(CapMariaExtendedTypeInfo) {
		d.Extended = c.lenencBytes()
	}
	fixed := c.lenenc()
	if !c.short && fixed != columnFixed {
		return malformed(what, "the numbers do not take 12 bytes")
	}
	d.Charset = c.u16()
	d.Length = c.u32()
	d.Type = ColumnType(c.u8())
	d.Flags = ColumnFlags(c.u16())
	d.Decimals = c.u8()
	c.u16() // filler
	if c.more() {
		d.HasDefault = true
		if c.rest[0] == lenencNull {
			c.u8()
		} else {
			d.DefaultValue = c.lenencBytes()
		}
		if c.more() {
			return malformed(what, "bytes after the default value")
		}
	}
	return c.done(what)
}

// AppendTo appends the payload of d. It does not allocate when dst has room.
func (d *ColumnDefinition) AppendTo(dst []byte, caps Capability) []byte {
	dst = AppendLenencString(dst, d.Catalog)
	dst = AppendLenencString(dst, d.Schema)
	dst = AppendLenencString(dst, d.Table)
	dst = AppendLenencString(dst, d.OrgTable)
	dst = AppendLenencString(dst, d.Name)
	dst = AppendLenencString(dst, d.OrgName)
	if caps.Has(CapMariaExtendedTypeInfo) {
		dst = AppendLenencString(dst, d.Extended)
	}
	dst = append(dst, columnFixed)
	dst = binary.LittleEndian.AppendUint16(dst, d.Charset)
	dst = binary.LittleEndian.AppendUint32(dst, d.Length)
	dst = append(dst, byte(d.Type))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(d.Flags))
	dst = append(dst, d.Decimals, 0, 0)
	switch {
	case !d.HasDefault:
		return dst
	case d.DefaultValue == nil:
		return append(dst, lenencNull)
	}
	return AppendLenencString(dst, d.DefaultValue)
}

// ValueType is how values of the column are read in the binary protocol.
func (d *ColumnDefinition) ValueType() ValueType {
	return ValueType{Type: d.Type, Unsigned: d.Flags.Has(FlagUnsigned)}
}

// TypeName is the name of MariaDB's own data type (such as "uuid" or "inet6"), if Extended
// tells one. It does not allocate.
func (d *ColumnDefinition) TypeName() []byte { return d.extended(extTypeName) }

// Format is the format that Extended tells of the values ("json"). It does not allocate.
func (d *ColumnDefinition) Format() []byte { return d.extended(extFormat) }

func (d *ColumnDefinition) extended(kind uint8) []byte {
	for c := (cursor{rest: d.Extended}); c.more(); {
		k, value := c.u8(), c.lenencBytes()
		if !c.short && k == kind {
			return value
		}
	}
	return nil
}
