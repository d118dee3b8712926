package mysqlwire

// Packets and fields that Tare relays without decoding: decoders and encoders for the tests of this package,
// which replay whole exchanges (testdata/exchanges) and talk to a server.

import (
	"encoding/binary"
	"strconv"
)

// AppendTo appends the payload of r. It does not allocate when dst has room.
func (r BinaryRow) AppendTo(dst []byte) []byte {
	dst = append(dst, MarkOK)
	dst = appendNulls(dst, r, rowNullOffset)
	for _, v := range r {
		dst = v.AppendTo(dst)
	}
	return dst
}

const (
	// columnFixed is the length in bytes of a definition's numbers, sent before them.
	columnFixed = 0x0C

	extTypeName = 0 // kinds of MariaDB's extended metadata
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
	Length   uint32 // bytes of the longest value
	Type     ColumnType
	Flags    ColumnFlags
	Decimals uint8 // 31 if a float or double declares none

	// HasDefault reports that a default value follows, as in responses to COM_FIELD_LIST; DefaultValue is nil
	// if it is NULL.
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

// ValueType returns the type that decodes the column's values in the binary protocol.
func (d *ColumnDefinition) ValueType() ValueType {
	return ValueType{Type: d.Type, Unsigned: d.Flags.Has(FlagUnsigned)}
}

// TypeName returns the name of a data type that only MariaDB has (such as "uuid" or "inet6"),
// if Extended contains one. It does not allocate.
func (d *ColumnDefinition) TypeName() []byte { return d.extended(extTypeName) }

// Format returns the format of the values in Extended ("json"), if any. It does not allocate.
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

// ColumnFlags are the properties of a column.
type ColumnFlags uint16

// The flags that servers send, with their names in MySQL's sources.
const (
	FlagNotNull        ColumnFlags = 1 << 0
	FlagPrimaryKey     ColumnFlags = 1 << 1
	FlagUniqueKey      ColumnFlags = 1 << 2
	FlagMultipleKey    ColumnFlags = 1 << 3
	FlagBlob           ColumnFlags = 1 << 4
	FlagUnsigned       ColumnFlags = 1 << 5
	FlagZerofill       ColumnFlags = 1 << 6
	FlagBinary         ColumnFlags = 1 << 7
	FlagEnum           ColumnFlags = 1 << 8
	FlagAutoIncrement  ColumnFlags = 1 << 9
	FlagTimestamp      ColumnFlags = 1 << 10
	FlagSet            ColumnFlags = 1 << 11
	FlagNoDefaultValue ColumnFlags = 1 << 12
	FlagOnUpdateNow    ColumnFlags = 1 << 13
	FlagPartKey        ColumnFlags = 1 << 14 // the column is part of some key
	FlagNum            ColumnFlags = 1 << 15
)

// Has reports whether all flags of want are in f.
func (f ColumnFlags) Has(want ColumnFlags) bool { return f&want == want }

// AppendTo appends the payload of e. It does not allocate when dst has room.
func (e EOF) AppendTo(dst []byte, caps Capability) []byte {
	dst = append(dst, MarkEOF)
	if !caps.Has(CapProtocol41) {
		return dst
	}
	dst = binary.LittleEndian.AppendUint16(dst, e.Warnings)
	return binary.LittleEndian.AppendUint16(dst, uint16(e.Status))
}

// String lists the flags by their names in the sources, joined by "|".
func (f ColumnFlags) String() string { return bitNames(uint64(f), &columnFlagNames) }

// lenencSize returns the size of a length-encoded n.
func lenencSize(n int) int {
	switch {
	case n < lenencNull:
		return 1
	case n < 1<<16:
		return 3
	case n < 1<<24:
		return 4
	}
	return 9
}

// A LocalInfile requests the contents of a file of the client. It is the response to LOAD DATA
// LOCAL INFILE. The client sends the contents in packets, the last of which is empty; the
// server then sends OK or ERR.
//
// Specification: MySQL "LOCAL INFILE Request", MariaDB "LOCAL INFILE Packet".
type LocalInfile struct {
	Filename []byte // a view of the payload
}

// Decode reads the request. It does not allocate.
func (l *LocalInfile) Decode(payload []byte) error {
	*l = LocalInfile{}
	c, err := open(payload, MarkLocalInfile, "local infile request")
	if err != nil {
		return err
	}
	l.Filename = c.all()
	return nil
}

// AppendTo appends the request. It does not allocate when dst has room.
func (l LocalInfile) AppendTo(dst []byte) []byte {
	return append(append(dst, MarkLocalInfile), l.Filename...)
}

func (c *cursor) u24() uint32 {
	if len(c.rest) < 3 {
		c.fail()
		return 0
	}
	v := uint32(c.rest[0]) | uint32(c.rest[1])<<8 | uint32(c.rest[2])<<16
	c.rest = c.rest[3:]
	return v
}

func (c *cursor) u64() uint64 {
	if len(c.rest) < 8 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(c.rest)
	c.rest = c.rest[8:]
	return v
}

func appendU24(dst []byte, v uint32) []byte {
	return append(dst, byte(v), byte(v>>8), byte(v>>16))
}

// A Progress reports the progress of a long statement to a client of MariaDB that has set
// CapMariaProgress. It has the form of an ERR with error number 0xFFFF. It may precede any
// packet of a response and does not end the response.
//
// Specification: MariaDB "ERR_Packet" (error code 0xFFFF), "Progress Reporting".
type Progress struct {
	Strings  uint8 // number of strings that follow; servers send 1
	Stage    uint8 // from 1
	MaxStage uint8
	Percent  uint32 // thousandths of a percent of the stage, 24 bits
	Info     []byte // the server's current activity; a view of the payload
}

// Decode reads a progress report. It does not allocate.
func (p *Progress) Decode(payload []byte) error {
	const what = "progress report"
	*p = Progress{}
	c, err := open(payload, MarkErr, what)
	if err != nil {
		return err
	}
	if number := c.u16(); !c.short && number != errnoProgress {
		return malformed(what, "it is an error")
	}
	p.Strings = c.u8()
	p.Stage = c.u8()
	p.MaxStage = c.u8()
	p.Percent = c.u24()
	p.Info = c.lenencBytes()
	return c.done(what)
}

// AppendTo appends the payload of p. It does not allocate when dst has room.
func (p Progress) AppendTo(dst []byte) []byte {
	dst = append(dst, MarkErr, 0xFF, 0xFF, p.Strings, p.Stage, p.MaxStage)
	return AppendLenencString(appendU24(dst, p.Percent), p.Info)
}

var stateChangeNames = [...]string{"system variable", "schema", "state", "gtids", "transaction characteristics", "transaction state"}

// String returns the name of the kind of change.
func (t StateChangeType) String() string {
	if int(t) < len(stateChangeNames) {
		return stateChangeNames[t]
	}
	return "state change " + strconv.Itoa(int(t))
}

// AppendTo appends c in the form of OK.State. It does not allocate when dst has room.
func (c StateChange) AppendTo(dst []byte) []byte {
	dst = append(dst, byte(c.Type))
	switch c.Type {
	case StateSystemVariable:
		n := lenencSize(len(c.Name)) + len(c.Name) + lenencSize(len(c.Value)) + len(c.Value)
		dst = AppendLenencInt(dst, uint64(n))
		return AppendLenencString(AppendLenencString(dst, c.Name), c.Value)
	case StateGTIDs:
		dst = AppendLenencInt(dst, uint64(1+lenencSize(len(c.Value))+len(c.Value)))
		return AppendLenencString(append(dst, 0), c.Value)
	case StateSchema, StateCharacteristics, StateTransaction:
		dst = AppendLenencInt(dst, uint64(lenencSize(len(c.Value))+len(c.Value)))
	}
	return AppendLenencString(dst, c.Value)
}

// Err returns the reason why Next stopped before the end, or nil.
func (it *StateChangeIter) Err() error {
	if it.malformed {
		return malformed("session state", "the change's length does not fit its fields")
	}
	return it.c.done("session state")
}

var columnFlagNames = [64]string{
	"NOT_NULL", "PRI_KEY", "UNIQUE_KEY", "MULTIPLE_KEY", "BLOB", "UNSIGNED", "ZEROFILL", "BINARY",
	"ENUM", "AUTO_INCREMENT", "TIMESTAMP", "SET", "NO_DEFAULT_VALUE", "ON_UPDATE_NOW", "PART_KEY", "NUM",
}
