package mysqlwire

import (
	"encoding/binary"
	"slices"
)

// typeUnsigned is the flag beside a parameter's type that marks it as unsigned.
const typeUnsigned = 0x80

// StmtParams decodes the parameters of one prepared statement, execution by execution. It keeps the state
// that messages do not repeat: clients send types only after changes, and values sent by
// COM_STMT_SEND_LONG_DATA are not in the execution.
//
//	PREPARE        ─► Reset(PrepareOK.Params)
//	SEND_LONG_DATA ─► MarkLong(param)
//	EXECUTE        ─► Decode ─► Values, Names
//	RESET          ─► ClearLong
//
// The zero value is a statement without parameters.
type StmtParams struct {
	// Values of the last Decode, one per parameter, the statement's parameters first and query attributes
	// after them. Views of the payload.
	Values []BinaryValue

	// Names of the last Decode if query attributes are negotiated, else empty; the statement's parameters
	// have empty names. Views of the payload.
	Names [][]byte

	count int
	types []ValueType
	long  []uint64 // a bit for each parameter sent as long data
}

// Reset makes p the state of a newly prepared statement with count parameters; it reuses p's slices.
func (p *StmtParams) Reset(count int) {
	*p = StmtParams{
		Values: p.Values[:0], Names: p.Names[:0], count: count, types: p.types[:0], long: p.long[:0],
	}
}

// MarkLong records that the value of a parameter was sent as long data. Numbers that the statement does not
// have are ignored, as by servers. It does not allocate once the statement has had long data.
func (p *StmtParams) MarkLong(param uint16) {
	if int(param) >= p.count {
		return
	}
	for len(p.long) < (p.count+63)/64 {
		p.long = append(p.long, 0)
	}
	p.long[param/64] |= 1 << (param % 64)
}

// ClearLong discards the long data, as COM_STMT_RESET does. Decode discards it too, because a server does so
// with each execution.
func (p *StmtParams) ClearLong() { clear(p.long) }

func (p *StmtParams) isLong(i int) bool {
	return i < p.count && i/64 < len(p.long) && p.long[i/64]&(1<<(i%64)) != 0
}

// Decode reads the parameters of e by the connection's capabilities. It does not allocate
// once p has had as many parameters.
func (p *StmtParams) Decode(e *StmtExecute, caps Capability) error {
	defer p.ClearLong()
	defer p.dropAttributes()
	const what = "stmt execute"
	c := cursor{rest: e.Params}
	n, nulls, err := p.head(&c, e.Flags, caps)
	if err != nil {
		return err
	}
	if n == 0 {
		return c.done(what)
	}
	p.Values = slices.Grow(p.Values, n)
	for i, t := range p.types {
		v := BinaryValue{ValueType: t, Long: p.isLong(i)}
		if !v.Long && nulls[i/8]&(1<<(i%8)) == 0 {
			if err := c.binaryValue(&v, what); err != nil {
				return err
			}
		}
		p.Values = append(p.Values, v)
	}
	if c.more() {
		return malformed(what, "bytes after the last parameter")
	}
	return nil
}

// DecodeTypes keeps the types of an execution whose values are not needed: e.Params is the start of the parameters. It
// forgets the types, and returns an error, if e.Params does not have all of them.
func (p *StmtParams) DecodeTypes(e *StmtExecute, caps Capability) error {
	defer p.ClearLong()
	defer p.dropAttributes()
	c := cursor{rest: e.Params}
	_, _, err := p.head(&c, e.Flags, caps)
	if err != nil {
		p.types = p.types[:0]
	}
	p.Names = p.Names[:0]
	return err
}

// dropAttributes forgets the types of query attributes: servers keep those of the statement's parameters.
func (p *StmtParams) dropAttributes() { p.types = p.types[:min(len(p.types), p.count)] }

// head reads the parameters up to the first value: it returns their number and the NULL bitmap.
func (p *StmtParams) head(c *cursor, flags ExecuteFlags, caps Capability) (n int, nulls []byte, err error) {
	p.Values, p.Names = p.Values[:0], p.Names[:0]
	named := caps.Has(CapQueryAttributes)
	if p.count == 0 && !(named && flags.Has(ExecuteParamCount)) {
		c.rest = nil
		return 0, nil, nil
	}
	const what = "stmt execute"
	n = p.count
	if named {
		v := c.lenenc()
		if v < uint64(p.count) || v > maxParams {
			return 0, nil, malformed(what, "wrong number of parameters")
		}
		n = int(v)
	}
	if n == 0 {
		return 0, nil, nil
	}
	nulls = c.bytes((n + 7) / 8)
	if sent := c.u8(); sent != 0 {
		if err := p.decodeTypes(c, n, named); err != nil {
			return 0, nil, err
		}
	}
	if c.short {
		return 0, nil, shortIn(what)
	}
	if len(p.types) != n {
		return 0, nil, malformed(what, "types of the parameters were never sent")
	}
	return n, nulls, nil
}

// maxParams is the maximum number of parameters of a statement: PREPARE counts them in 16 bits. The same
// number of query attributes is accepted.
const maxParams = 2 * 0xFFFF

// decodeTypes reads n types, and names if named is set.
func (p *StmtParams) decodeTypes(c *cursor, n int, named bool) error {
	if 2*n > len(c.rest) {
		return shortIn("stmt execute")
	}
	types := slices.Grow(p.types[:0], n)
	for range n {
		types = append(types, c.valueType())
		if named {
			p.Names = append(p.Names, c.lenencBytes())
		}
	}
	p.types = types
	if c.short {
		p.types = types[:0]
	}
	return c.done("stmt execute")
}

// AppendTo appends the parameters for a StmtExecute with the given flags: Values, with their types if
// withTypes is set, and Names if query attributes are negotiated. It does not allocate when dst has room.
func (p *StmtParams) AppendTo(dst []byte, flags ExecuteFlags, caps Capability, withTypes bool) []byte {
	named := caps.Has(CapQueryAttributes)
	if p.count == 0 && !(named && flags.Has(ExecuteParamCount)) {
		return dst
	}
	if named {
		dst = AppendLenencInt(dst, uint64(len(p.Values)))
	}
	if len(p.Values) == 0 {
		return dst
	}
	dst = appendNulls(dst, p.Values, 0)
	if !withTypes {
		dst = append(dst, 0)
	} else {
		dst = append(dst, 1)
		for i, v := range p.Values {
			dst = v.ValueType.AppendTo(dst)
			if !named {
				continue
			}
			var name []byte
			if i < len(p.Names) {
				name = p.Names[i]
			}
			dst = AppendLenencString(dst, name)
		}
	}
	for _, v := range p.Values {
		dst = v.AppendTo(dst)
	}
	return dst
}

// Typed reports whether an execution has sent types, which later ones may omit.
func (p *StmtParams) Typed() bool { return len(p.types) > 0 }

// TypeOf returns the type of a parameter by the last Decode; TypeNull if none has had types.
func (p *StmtParams) TypeOf(i int) ValueType {
	if i >= len(p.types) {
		return ValueType{Type: TypeNull}
	}
	return p.types[i]
}

// AppendTypes appends the types used by the last Decode, in the form in which they follow the flag that
// announces them in an execution; the names of query attributes are left empty. It does not allocate when dst
// has room.
func (p *StmtParams) AppendTypes(dst []byte, caps Capability) []byte {
	for _, t := range p.types {
		dst = t.AppendTo(dst)
		if caps.Has(CapQueryAttributes) {
			dst = AppendLenencString(dst, nil)
		}
	}
	return dst
}

// AppendTo appends the two bytes that encode a parameter's type.
func (t ValueType) AppendTo(dst []byte) []byte {
	var flags uint16
	if t.Unsigned {
		flags = typeUnsigned << 8
	}
	return binary.LittleEndian.AppendUint16(dst, uint16(t.Type)|flags)
}

func (c *cursor) valueType() ValueType {
	v := c.u16()
	return ValueType{Type: ColumnType(v), Unsigned: v>>8&typeUnsigned != 0}
}

// appendNulls appends the NULL bitmap of values; offset is the number of the first bit.
func appendNulls(dst []byte, values []BinaryValue, offset int) []byte {
	at := len(dst)
	dst = appendPadded(dst, nil, (len(values)+offset+7)/8)
	for i, v := range values {
		if v.IsNull() {
			bit := i + offset
			dst[at+bit/8] |= 1 << (bit % 8)
		}
	}
	return dst
}
