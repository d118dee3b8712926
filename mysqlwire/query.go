package mysqlwire

// Query is the text of a COM_QUERY, a view of payload. With CapQueryAttributes attributes
// stand before it, which are checked and skipped. It does not allocate.
//
// Specification: MySQL "COM_QUERY", MariaDB "COM_QUERY".
func Query(payload []byte, caps Capability) (sql []byte, err error) {
	if len(payload) > 0 && payload[0] == byte(ComQuery) && caps&CapQueryAttributes == 0 {
		return payload[1:len(payload):len(payload)], nil
	}
	sql, _, err = QueryWithAttributes(payload, caps)
	return sql, err
}

// QueryWithAttributes is Query with an iterator over the query's attributes.
// It does not allocate.
func QueryWithAttributes(payload []byte, caps Capability) (sql []byte, attrs QueryAttributeIter, err error) {
	const what = "query"
	c, err := openCommand(payload, ComQuery, what)
	if err != nil {
		return nil, QueryAttributeIter{}, err
	}
	if !caps.Has(CapQueryAttributes) {
		return c.all(), QueryAttributeIter{}, nil
	}
	n := c.lenenc()
	sets := c.lenenc()
	if !c.short && sets != 1 {
		return nil, QueryAttributeIter{}, malformed(what, "not one set of attributes")
	}
	if c.short || n > uint64(len(c.rest)) {
		return nil, QueryAttributeIter{}, shortIn(what)
	}
	if n > 0 {
		if attrs, err = openAttributes(c, int(n)); err != nil {
			return nil, QueryAttributeIter{}, err
		}
		last := attrs
		for last.Next() {
		}
		if last.err != nil {
			return nil, QueryAttributeIter{}, last.err
		}
		c = last.values
	}
	return c.all(), attrs, nil
}

// A QueryAttributeIter walks over the attributes of a query, which were checked when it was
// made. Names and values are views of the payload.
type QueryAttributeIter struct {
	nulls         []byte
	types, values cursor
	i, n          int
	name          []byte
	value         BinaryValue
	err           error
}

// openAttributes makes the iterator over n attributes at the start of c. Types and names
// of all stand before the first value.
func openAttributes(c cursor, n int) (QueryAttributeIter, error) {
	const what = "query attributes"
	it := QueryAttributeIter{n: n, nulls: c.bytes((n + 7) / 8)}
	if sent := c.u8(); !c.short && sent != 1 {
		return it, malformed(what, "no types")
	}
	it.types = c
	for range n {
		c.valueType()
		c.lenencBytes()
	}
	it.values = c
	return it, c.done(what)
}

// Next goes to the next attribute and reports whether there is one.
func (it *QueryAttributeIter) Next() bool {
	if it.i >= it.n || it.err != nil {
		return false
	}
	i := it.i
	it.i++
	it.value = BinaryValue{ValueType: it.types.valueType()}
	it.name = it.types.lenencBytes()
	if it.nulls[i/8]&(1<<(i%8)) == 0 {
		it.err = it.values.binaryValue(&it.value, "query attributes")
	}
	return it.err == nil
}

// Name is the attribute's name; it may be empty.
func (it *QueryAttributeIter) Name() []byte { return it.name }

// Value is the attribute's value.
func (it *QueryAttributeIter) Value() BinaryValue { return it.value }

// AppendQuery appends a COM_QUERY without attributes.
// It does not allocate when dst has room.
func AppendQuery(dst, sql []byte, caps Capability) []byte {
	dst = append(dst, byte(ComQuery))
	if caps.Has(CapQueryAttributes) {
		dst = append(dst, 0, 1)
	}
	return append(dst, sql...)
}
