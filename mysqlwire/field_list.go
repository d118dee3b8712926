package mysqlwire

// A FieldList asks for the definitions of a table's columns: COM_FIELD_LIST. Command-line
// clients still send it to complete names.
//
// Specification: MySQL "COM_FIELD_LIST".
type FieldList struct {
	Table    []byte // views of the payload
	Wildcard []byte // a LIKE pattern; empty stands for all
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
