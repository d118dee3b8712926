package mysqlwire

// An AttributeIter walks over connection attributes: pairs of length-encoded strings, such
// as _client_name and program_name, that a client says about itself.
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

// Next goes to the next attribute and reports whether there is one.
func (it *AttributeIter) Next() bool {
	if !it.c.more() {
		return false
	}
	it.name = it.c.lenencBytes()
	it.value = it.c.lenencBytes()
	return !it.c.short
}

// Name is the attribute's name, a view of the payload.
func (it *AttributeIter) Name() []byte { return it.name }

// Value is the attribute's value, a view of the payload.
func (it *AttributeIter) Value() []byte { return it.value }

// Err answers ErrShortPacket, wrapped, when Next stopped before the end.
func (it *AttributeIter) Err() error { return it.c.done("connection attributes") }

// AppendAttribute appends one name and value to raw attributes.
// It does not allocate when dst has room.
func AppendAttribute(dst []byte, name, value string) []byte {
	dst = append(AppendLenencInt(dst, uint64(len(name))), name...)
	return append(AppendLenencInt(dst, uint64(len(value))), value...)
}
